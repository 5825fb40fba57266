"""How a task writes its share when the sink does not answer; no Spark session needed."""

import pyarrow as pa
import pytest

from penstock.contracts import Batch, Context, Promise, Receipt, Sink, Writer
from penstock.contracts import connector as configured
from penstock.contracts.errors import EphemeralWriteError, WriteError
from penstock.pipeline.graph import Policy
from penstock.pipeline.kernels import waits
from penstock.spark import share as writing
from penstock.spark.share import Again, write_share

SCHEMA = pa.schema([("n", pa.int64())])
BATCH = Batch(Context(node="out"), 3)
QUICK = Policy(retries=3, backoff=0.001, longest=0.002)


def rows(count=3):
    return [pa.RecordBatch.from_pylist([{"n": n}], schema=SCHEMA) for n in range(count)]


class Server:
    """What a sink talks to, and when it does not answer."""

    def __init__(self, fails=(), error=None):
        self.fails = list(fails)
        self.error = error or EphemeralWriteError("not now")
        self.published = []
        self.attempts = []
        self.aborted = 0

    def ask(self, what):
        if self.fails and self.fails[0] == what:
            self.fails.pop(0)
            raise self.error


class ShakyWriter(Writer):
    def __init__(self, server):
        self.server = server
        self.held = []

    def write(self, rows):
        self.held += rows.column("n").to_pylist()
        self.server.ask(f"write {self.held[-1]}")

    def close(self):
        self.server.ask("close")
        self.server.published.append(self.held)
        return Receipt(rows=len(self.held))

    def abort(self):
        self.server.aborted += 1


@configured
class Shaky(Sink):
    def promise(self):
        return Promise()

    def open(self, batch, partition, attempt, schema):
        server.ask("open")
        server.attempts.append(attempt)
        return ShakyWriter(server)


server = Server()


def write(found, given=None, policy=QUICK):
    global server
    server = found
    return write_share("shaky", Shaky(), BATCH, SCHEMA, rows() if given is None else given, policy)


@pytest.mark.parametrize("at", ["open", "write 0", "write 2", "close"])
def test_what_may_pass_is_written_again_from_the_first_row(at):
    found = Server([at, at])
    done = write(found)
    assert found.published == [[0, 1, 2]]
    assert done.receipt.rows == 3
    assert done.retried == 2
    assert found.aborted == (0 if at == "open" else 2)
    assert len(set(found.attempts)) == len(found.attempts)


@pytest.mark.parametrize("error", [ConnectionResetError("gone"), TimeoutError("slow")])
def test_a_lost_connection_and_a_time_out_may_pass_too(error):
    assert write(Server(["close"], error)).retried == 1


def test_after_the_last_try_the_error_says_how_many_there_were():
    found = Server(["close"] * 9)
    with pytest.raises(WriteError, match="did not answer in 4 tries: not now") as caught:
        write(found)
    assert not caught.value.ephemeral
    assert "raise retries" in caught.value.fix
    assert found.published == []


def test_what_will_not_pass_is_not_tried_again():
    found = Server(["write 1"], ValueError("never"))
    with pytest.raises(WriteError, match="ValueError: never"):
        write(found)
    assert found.attempts == [0]


def test_no_retries_means_none():
    with pytest.raises(WriteError, match="in 1 tries"):
        write(Server(["open"]), policy=Policy(retries=0))


def test_rows_that_fail_on_their_way_are_not_the_sinks_fault():
    def broken():
        yield rows()[0]
        raise ConnectionError("the source is gone")

    found = Server()
    with pytest.raises(WriteError, match="the source is gone"):
        write(found, broken())
    assert found.attempts == [0]


def test_a_share_too_large_to_keep_is_left_to_the_driver(monkeypatch):
    monkeypatch.setattr(writing, "Again", lambda given: Again(given, most=20))
    with pytest.raises(EphemeralWriteError, match="not now") as caught:
        write(Server(["close"]))
    assert caught.value.ephemeral
    assert "too large" in caught.value.got
    assert write(Server(["write 1"])).retried == 1


def test_waits_double_with_jitter_and_end_at_the_longest():
    policy = Policy(retries=8, backoff=1.0, longest=10.0)
    for _ in range(50):
        found = waits(policy)
        assert len(found) == 8
        for n, wait in enumerate(found):
            most = min(2.0**n, 10.0)
            assert most / 2 <= wait <= most
    assert len({tuple(waits(policy)) for _ in range(5)}) == 5
