"""One query receives into a spool, in tasks; another makes batches of it."""

import pickle

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.conformance.reference.socket_source import SocketSource
from penstock.conformance.waiting import until
from penstock.contracts import Context
from penstock.contracts.delivery import QueueOptions
from penstock.contracts.errors import OptionError, ReadError
from penstock.spark.queues import filling, segments, stream_reader

from .stand_in import Plain

IDS = [f"m{n:04d}" for n in range(200)]


@pytest.fixture
def filler(broker, tmp_path):
    def make(**options):
        made = QueueOptions(
            delivery="pessimistic", spool="fill", state=str(tmp_path / "state"), **options
        )
        source = SocketSource(port=broker.port)
        return stream_reader(source, made, Context(node="in"), Plain())

    return make


def turn(reader):
    """One micro-batch; Spark's tasks have a reader of their own, which has planned nothing."""
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end != start
    for part in pickle.loads(pickle.dumps(reader.partitions(start, end))):
        other = stream_reader(reader.source, reader.options, reader.ctx, reader.finish)
        assert list(other.read(part)) == []


def test_what_tasks_receive_another_query_reads_and_the_broker_forgets(
    broker, filler, query, tmp_path, monkeypatch
):
    monkeypatch.setattr(filling, "FILL_FOR", 1.0)
    broker.send(*IDS)
    reader = filler(max_rows=70)
    until(lambda: turn(reader) or broker.depth() == 0, within=60, why="turns empty the queue")
    reading = query(delivery="pessimistic", spool="read", state=str(tmp_path / "state"))
    seen = []
    while reading.plan():
        seen += reading.rows()
        reading.commit()
    assert seen == IDS
    until(lambda: not segments.segments(tmp_path / "state" / "inbox"), within=20,
          why="the segments are deleted")  # fmt: skip
    broker.restart()
    assert broker.depth() == 0


def test_available_now_fills_until_the_queue_is_empty_and_ends(broker, filler):
    broker.send(*IDS)
    reader = filler(quiet=0.7)
    reader.prepareForTriggerAvailableNow()
    turn(reader)
    again = {"turn": 1}
    assert reader.latestOffset(again, ReadAllAvailable()) == again
    assert broker.depth() == 0


def test_a_task_that_does_not_see_the_folder_receives_nothing_and_says_so(broker, filler, tmp_path):
    broker.send(*IDS[:5])
    reader = filler()
    (part,) = reader.partitions({"turn": 0}, {"turn": 1})
    (tmp_path / "state").rename(tmp_path / "elsewhere")
    with pytest.raises(ReadError, match="does not see the spool's folder"):
        list(reader.read(part))
    assert broker.depth() == 5


def test_marks_do_not_pile_up(filler, tmp_path):
    reader = filler()
    for number in range(30):
        reader.partitions({"turn": number}, {"turn": number + 1})
    assert len(list((tmp_path / "state" / "marks").iterdir())) <= filling.KEPT + 1


@pytest.mark.parametrize("options", [{"delivery": "pessimistic"}, {"state": "/tmp/x"}])
def test_a_shared_spool_needs_its_folder_and_its_delivery(options):
    with pytest.raises(OptionError, match="spool=fill"):
        QueueOptions(spool="fill", **options)
