import pickle

import pytest

from penstock.contracts import errors
from penstock.contracts.errors import OptionError, PenstockError, did_you_mean


def test_an_error_says_who_expected_got_and_what_next():
    error = OptionError(
        "the option x is unknown", who="kafka", expected="one of y", got="x", fix="did you mean y?"
    )
    assert str(error).splitlines() == [
        "kafka: the option x is unknown",
        "  expected: one of y",
        "  got: x",
        "  fix: did you mean y?",
    ]


def test_an_error_survives_the_way_from_worker_to_driver():
    error = OptionError("m", who="w", expected="e", got="g", fix="f")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (OptionError, str(error))


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.OptionError, 2),
        (errors.DocumentError, 2),
        (errors.GuaranteeError, 2),
        (errors.SetupError, 3),
        (errors.PluginError, 3),
        (errors.ReadError, 4),
        (errors.WriteError, 4),
    ],
)
def test_the_exit_code_follows_from_the_phase(kind, code):
    assert kind("m").exit_code == code


def test_ephemeral_errors_are_told_apart():
    assert errors.EphemeralReadError("m").ephemeral
    assert not errors.ReadError("m").ephemeral
    assert issubclass(errors.EphemeralWriteError, errors.WriteError)


def test_every_error_has_the_one_root():
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, Exception)]
    assert len(kinds) > 15
    assert all(issubclass(kind, PenstockError) for kind in kinds)


def test_a_suggestion_is_made_only_when_something_is_near():
    assert did_you_mean("kafak", ["kafka", "amqp"]) == "did you mean 'kafka'?"
    assert did_you_mean("zzz", ["kafka"]) is None
