"""What is ephemeral is tried again."""

import pytest
from pyspark.errors import PySparkException

from penstock.contracts.errors import EphemeralReadError, ReadError
from penstock.spark.patience import patiently

FROM_A_WORKER = """Job aborted due to stage failure: Traceback (most recent call last):
penstock.contracts.errors.{kind}: the server does not answer
  got: connection refused
"""


def failing(*errors):
    """A call that raises each of the errors once, then answers."""
    left = list(errors)

    def call():
        if left:
            raise left.pop(0)
        return "done"

    return call


def test_a_call_is_made_again_while_its_error_may_pass():
    assert patiently(failing(EphemeralReadError("away"), EphemeralReadError("away"))) == "done"


def test_what_a_worker_raised_counts_by_what_it_says():
    gone = PySparkException(FROM_A_WORKER.format(kind="EphemeralReadError"))
    assert patiently(failing(gone)) == "done"
    with pytest.raises(PySparkException):
        patiently(failing(PySparkException(FROM_A_WORKER.format(kind="DataLossError"))))


def test_any_other_error_is_raised_at_once():
    with pytest.raises(ReadError, match="for good"):
        patiently(failing(ReadError("for good")))
    with pytest.raises(ZeroDivisionError):
        patiently(failing(ZeroDivisionError()))


def test_it_gives_up_in_the_end():
    away = [EphemeralReadError(f"away {n}") for n in range(1000)]
    with pytest.raises(EphemeralReadError):
        patiently(failing(*away), within=0.05)


def test_it_gives_up_when_told_to():
    with pytest.raises(EphemeralReadError, match="first"):
        patiently(
            failing(EphemeralReadError("first"), EphemeralReadError("second")), going=lambda: False
        )
