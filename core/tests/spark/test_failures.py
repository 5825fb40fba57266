"""What a connector raises reaches its user with who, options and place, and without secrets."""

import pyarrow as pa
import pytest

from penstock.contracts import Secret, connector, option
from penstock.contracts.envelope import stamps
from penstock.contracts.errors import EphemeralReadError, ReadError, RunError, WriteError
from penstock.contracts.options import Configured
from penstock.spark.failures import from_spark, last_stamp, told


@connector
class Pump(Configured):
    path: str = option(doc="Where.")
    password: Secret | None = option(default=None, doc="The password.")


PUMP = Pump(path="in", password=Secret("canary"))


def test_any_exception_becomes_an_error_with_options_and_place():
    with (
        pytest.raises(ReadError) as caught,
        told("pump (p 1)", PUMP, "reading", where=lambda: "part 3"),
    ):
        raise OSError("disk is gone")
    said = str(caught.value)
    assert "pump (p 1): reading failed: OSError: disk is gone" in said
    assert "path=in" in said
    assert "part 3" in said


def test_a_secret_in_an_exceptions_text_is_hidden():
    with pytest.raises(WriteError) as caught, told("pump", PUMP, "writing", WriteError):
        raise RuntimeError("cannot log in to amqp://me:canary@host")
    assert "canary" not in str(caught.value)
    assert "amqp://me:***@host" in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_an_error_of_ours_keeps_its_class_and_its_words():
    with pytest.raises(EphemeralReadError) as caught, told("pump", PUMP, "reading"):
        raise EphemeralReadError("the broker is away", got="time-out", fix="wait")
    assert caught.value.ephemeral
    assert caught.value.got.startswith("time-out; options path=in")
    assert caught.value.fix == "wait"


def test_the_last_stamp_tells_where_a_reader_stood():
    rows = pa.record_batch({"stamp": stamps("topic", "4", pa.array([7, 8]))})
    assert last_stamp(rows) == "after topic part 4 position 8"
    assert last_stamp(None) is None


def test_what_a_worker_said_is_taken_out_of_sparks_stack():
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted\n"
        "Traceback (most recent call last):\n"
        '  File "x.py", line 1, in read\n'
        "penstock.contracts.errors.WriteError: kafka: writing failed: boom\n"
        "  expected: a topic\n"
        "  fix: create it\n"
        "\tat org.apache.spark.Foo(Foo.scala:1)\n"
    )
    error = from_spark(Exception(text))
    assert isinstance(error, WriteError)
    assert (error.message, error.expected, error.fix) == (
        "kafka: writing failed: boom",
        "a topic",
        "create it",
    )


def test_an_error_that_is_not_ours_keeps_its_first_and_last_words():
    error = from_spark(Exception("Job aborted\n  File x\nValueError: seven\n"))
    assert isinstance(error, RunError)
    assert error.message == "Job aborted"
    assert error.got == "ValueError: seven"
