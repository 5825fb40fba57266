"""The order of the drain's steps, and what is left after each of them failed; no Spark here."""

import json
from pathlib import Path

import pytest

import penstock as pen
from core.tests.spark import local
from core.tests.spark.local import Rig
from penstock.contracts.errors import EphemeralWriteError, LayoutError, WriteError
from penstock.pipeline.functions import Function
from penstock.spark.frames import written

tasks = local.tasks
pytestmark = pytest.mark.usefixtures("tasks")

SCHEMA = "id long, customer string, total double"


class Killed(BaseException):
    """Ends the process at a named point, as far as the drain can see."""


@pytest.fixture
def kill(monkeypatch):
    """Kill at the n-th time a point is reached, then never again."""
    struck = {}

    def reached(name, **facts):
        if struck.get(name):
            struck[name] -= 1
            if not struck[name]:
                raise Killed(name)

    for module in ("drain", "staging", "share", "targets"):
        monkeypatch.setattr(f"penstock.spark.{module}.points.reached", reached)
    return lambda name, time=1: struck.__setitem__(name, time)


def odd_ones(order):
    if order["id"] % 10 == 7:
        raise ValueError(f"order {order['id']}")
    return order


def orders(rows=100, **options):
    source = pen.pipeline("orders").source("generator", rows=rows, **options)
    return source.decode("json", schema=SCHEMA)


def lines(folder):
    if not Path(folder).exists():
        return []
    files = [p for p in sorted(Path(folder).iterdir()) if p.is_file() and p.name[0] not in "._"]
    return [json.loads(line) for p in files for line in p.read_text().splitlines()]


def ids(folder):
    return sorted(order["id"] for order in lines(folder))


HEALTHY = [n for n in range(100) if n % 10 != 7]


def two_sinks(tmp_path):
    flow = (
        orders()
        .map(odd_ones, schema=SCHEMA)
        .sink("localfile", name="left", path=str(tmp_path / "left"))
        .sink("localfile", name="right", path=str(tmp_path / "right"))
        .on_error("dead-letter", sink="localfile", options={"path": str(tmp_path / "letters")})
    )
    return Rig(flow, tmp_path / "state")


@pytest.mark.parametrize(
    ("point", "time"),
    [
        ("offsets-logged", 1),
        ("staged", 1),
        ("mid-write", 1),
        ("mid-write", 3),
        ("tasks-written", 1),
        ("dead-letters-published", 1),
        ("sink-finished", 1),
        ("sink-finished", 2),
        ("dead-letters-delivered", 1),
        ("sinks-finished", 1),
    ],
)
def test_killed_anywhere_a_batch_ends_with_every_record_and_every_letter_once(
    tmp_path, kill, point, time
):
    rig = two_sinks(tmp_path)
    kill(point, time)
    with pytest.raises(Killed, match=point):
        rig.drain()
    rig.drain()
    assert ids(tmp_path / "left") == ids(tmp_path / "right") == HEALTHY
    assert sorted(rig.letters.table()["message"].to_pylist()) == sorted(
        letter["message"] for letter in lines(tmp_path / "letters")
    )
    assert rig.letters.table().num_rows == 10
    rig.drain()
    assert ids(tmp_path / "left") == ids(tmp_path / "right") == HEALTHY
    assert len(lines(tmp_path / "letters")) == 10


def one_sink(tmp_path, **options):
    flow = orders().map(odd_ones, schema=SCHEMA)
    flow = flow.sink("localfile", name="left", path=str(tmp_path / "left"), **options)
    return Rig(flow, tmp_path / "state")


@pytest.fixture(params=[False, True], ids=["through-spark", "in-the-reader"])
def whole(request, monkeypatch):
    """Both ways of a pipeline that has nothing between its reader and its writer."""
    monkeypatch.setattr("penstock.pipeline.analyse.THROUGH", request.param)
    return request.param


@pytest.mark.parametrize(
    ("point", "time"),
    [
        ("offsets-logged", 1),
        ("mid-write", 1),
        ("mid-write", 2),
        ("tasks-written", 1),
        ("dead-letters-published", 1),
        ("sink-finished", 1),
        ("sinks-finished", 1),
    ],
)
def test_killed_anywhere_one_sink_has_every_record_once(tmp_path, kill, whole, point, time):
    rig = one_sink(tmp_path)
    assert (rig.flow.analyse().through == "left") is whole
    kill(point, time)
    with pytest.raises(Killed, match=point):
        rig.drain()
    drain = rig.drain()
    assert ids(tmp_path / "left") == HEALTHY
    assert rig.letters.table().num_rows == 10
    if point not in ("sink-finished", "sinks-finished"):
        assert drain.totals["odd_ones"].errors == 10
        assert drain.totals["left"].rows_in == 90
    rig.drain()
    assert ids(tmp_path / "left") == HEALTHY


def test_letters_of_a_sink_that_had_finished_stay_when_another_is_done_again(tmp_path, kill):
    big, small = orders().branch(lambda order: order["id"] < 50)
    flow = pen.pipeline(
        "orders",
        big.map(odd_ones, schema=SCHEMA, name="one").sink(
            "localfile", name="left", path=str(tmp_path / "left")
        ),
        small.map(odd_ones, schema=SCHEMA, name="other").sink(
            "localfile", name="right", path=str(tmp_path / "right")
        ),
    )
    rig = Rig(flow, tmp_path / "state")
    kill("sink-finished", 1)
    with pytest.raises(Killed):
        rig.drain()
    rig.drain()
    assert sorted(rig.letters.table()["node"].to_pylist()) == ["one"] * 5 + ["other"] * 5


def test_records_are_counted_in_every_node(tmp_path, whole):
    counts = one_sink(tmp_path).drain().totals
    assert counts["generator"].rows_out == counts["decode-json"].rows_in == 100
    assert counts["odd_ones"].rows_in == 100
    assert counts["odd_ones"].errors == 10
    assert counts["left"].rows_in == 90


def test_a_replay_in_another_number_of_tasks_is_refused(tmp_path, kill, monkeypatch):
    monkeypatch.setattr("penstock.pipeline.analyse.THROUGH", False)

    def rig(tasks):
        flow = orders().sink("localfile", name="left", path=str(tmp_path / "left"))
        return Rig(flow, tmp_path / "state", tasks)

    kill("tasks-written")
    with pytest.raises(Killed):
        rig(2).drain()
    with pytest.raises(LayoutError, match="begun with another number of tasks") as caught:
        rig(3).drain()
    assert caught.value.expected == "2 tasks"
    rig(2).drain()
    assert ids(tmp_path / "left") == list(range(100))


def test_a_sink_that_does_not_answer_at_first_is_written_again_and_counted(
    tmp_path, monkeypatch, whole
):
    rig = one_sink(tmp_path, on_error={"backoff": 0.001})
    sink = type(rig.flow.analyse()["left"].work)
    opened, finished = [], []
    real_open, real_finish = sink.open, sink.finish

    def shaky_open(self, batch, partition, attempt, schema):
        opened.append(partition)
        if opened.count(partition) < 3:
            raise EphemeralWriteError("not now")
        return real_open(self, batch, partition, attempt, schema)

    def shaky_finish(self, batch, receipts):
        finished.append(batch.number)
        if len(finished) == 1:
            raise ConnectionResetError("gone")
        real_finish(self, batch, receipts)

    monkeypatch.setattr(sink, "open", shaky_open)
    monkeypatch.setattr(sink, "finish", shaky_finish)
    drain = rig.drain()
    assert ids(tmp_path / "left") == HEALTHY
    assert opened == [0, 0, 0, 1, 1, 1]
    assert finished == [0, 0]
    assert drain.totals["left"].retried == 4


def test_a_sink_that_never_answers_fails_the_batch_and_leaves_nothing(tmp_path, monkeypatch, whole):
    rig = one_sink(tmp_path, on_error={"retries": 2, "backoff": 0.001})
    sink = type(rig.flow.analyse()["left"].work)
    tried = []

    def never(self, batch, partition, attempt, schema):
        tried.append(attempt)
        raise EphemeralWriteError("not now")

    monkeypatch.setattr(sink, "open", never)
    with pytest.raises(WriteError, match="did not answer in 3 tries: not now"):
        rig.drain()
    assert len(tried) == 3
    assert lines(tmp_path / "left") == []


def test_a_share_too_large_to_keep_is_computed_again_by_the_driver(tmp_path, monkeypatch, whole):
    rig = one_sink(tmp_path, on_error={"backoff": 0.001})
    sink = type(rig.flow.analyse()["left"].work)
    real = sink.writer
    closed = []

    def writer(self, publisher, batch, partition, attempt):
        made = real(self, publisher, batch, partition, attempt)
        real_close = made.close

        def close():
            closed.append(partition)
            if len(closed) == 1:
                raise EphemeralWriteError("not now")
            return real_close()

        made.close = close
        return made

    monkeypatch.setattr(sink, "writer", writer)
    monkeypatch.setattr("penstock.spark.share.MOST_KEPT", 1)
    monkeypatch.setattr("penstock.spark.share.Again.__init__.__defaults__", (1,))
    rig.drain()
    assert ids(tmp_path / "left") == HEALTHY
    assert closed == [0, 0, 1]


def test_a_function_of_a_frame_gets_the_staged_rows_after_the_letters_are_out(tmp_path, kill):
    got = []
    flow = orders().map(odd_ones, schema=SCHEMA).sink(lambda frame, batch: None, name="taken")
    rig = Rig(flow, tmp_path / "state")

    def taken(who, stage, frame, batch):
        assert isinstance(stage.work.function, Function)
        assert rig.letters.table().num_rows == 10
        got.append((batch, sum(rows.num_rows for part in frame.partitions for rows in part)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.spark.drain.written", taken)
        patch.setattr("penstock.spark.drain.own_columns", lambda frame: frame)
        drain = rig.drain()
    assert got == [(0, 90)]
    assert drain.totals["taken"].rows_in == 90


def test_a_function_of_a_frame_is_called_again_while_its_error_may_pass():
    tries = []

    def shaky(frame, batch):
        tries.append(batch)
        if len(tries) < 3:
            raise ConnectionResetError("gone")

    flow = orders().sink(shaky, on_error={"backoff": 0.001})
    written("shaky", flow.analyse()["shaky"], "the frame", 5)
    assert tries == [5, 5, 5]

    def never(frame, batch):
        raise ValueError("no")

    with pytest.raises(WriteError, match="writing failed: ValueError: no") as caught:
        written("never", orders().sink(never).analyse()["never"], "the frame", 5)
    assert "batch 5" in caught.value.got
