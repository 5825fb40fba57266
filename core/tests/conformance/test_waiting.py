import itertools
import time

import pytest

from penstock.conformance.waiting import NotInTime, quiet, until


def test_the_first_true_answer_is_returned():
    answers = iter([None, 0, "here"])
    assert until(lambda: next(answers), within=5, why="it is here", every=0) == "here"


def test_a_late_condition_says_what_was_waited_for_and_what_was_seen():
    with pytest.raises(NotInTime, match=r"until the queue is empty; last answer: \[\]"):
        until(list, within=0.02, why="the queue is empty", every=0.005)


def test_a_condition_is_asked_even_when_no_time_is_left():
    assert until(lambda: True, within=0, why="it is so")


def test_a_condition_that_comes_true_during_the_last_pause_counts():
    begin = time.monotonic()
    assert until(lambda: time.monotonic() - begin > 0.04, within=0.05, why="40 ms", every=10)


def test_an_ignored_error_is_named_when_time_is_up():
    def refuse():
        raise ConnectionRefusedError("nobody there")

    with pytest.raises(NotInTime, match="nobody there"):
        until(refuse, within=0.01, why="it answers", ignoring=(OSError,))


def test_another_error_ends_the_wait_at_once():
    def broken():
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        until(broken, within=5, why="it answers", ignoring=(OSError,))


def test_quiet_waits_for_the_last_change():
    counts = itertools.chain([1, 2, 3], itertools.repeat(4))
    found = quiet(lambda: next(counts), seconds=0.03, within=5, why="it settles", every=0.001)
    assert found == 4


def test_what_never_settles_is_an_error():
    counts = itertools.count()
    with pytest.raises(NotInTime, match="it settles"):
        quiet(lambda: next(counts), seconds=0.05, within=0.1, why="it settles", every=0.001)
