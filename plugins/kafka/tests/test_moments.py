"""Timestamps found in librdkafka's memory, and what happens when they are not there."""

import numpy as np
import pytest

from penstock_kafka import moments
from penstock_kafka.moments import Clock


@pytest.fixture
def records(monkeypatch):
    """Memory laid out as if a build of librdkafka kept timestamps in the given word."""
    kept = []

    def make(times, word, **others):
        block = np.zeros((len(times), 32), np.int64)
        block[:, word] = times
        for other, values in others.items():
            block[:, int(other.lstrip("w"))] = values
        kept.append(block)
        pointers = block.ctypes.data + 256 * np.arange(len(times))
        answers = dict(zip(pointers.tolist(), times, strict=True))
        asked = []

        def tell(pointer, _):
            asked.append(pointer)
            return answers[pointer]

        monkeypatch.setattr(moments.lib(), "message_timestamp", tell)
        return pointers, asked

    return make


def test_only_some_records_are_asked_once_the_place_is_known(records):
    clock = Clock()
    times = list(range(1000, 3000))
    pointers, asked = records(times, 13)
    assert clock.millis(pointers).tolist() == times
    assert (clock.word, len(asked)) == (13, 36)


def test_equal_times_could_lie_anywhere_and_all_are_asked(records):
    clock = Clock()
    pointers, asked = records([7] * 100, 13)
    assert clock.millis(pointers).tolist() == [7] * 100
    assert clock.word is None
    assert len(asked) >= 100


def test_two_places_with_the_same_words_teach_nothing(records):
    clock = Clock()
    pointers, _ = records([5, 6, 7], 13, w14=[5, 6, 7])
    assert clock.millis(pointers).tolist() == [5, 6, 7]
    assert clock.word is None


def test_a_place_that_does_not_hold_is_given_up(records):
    clock = Clock()
    clock.millis(records([5, 6, 7], 13)[0])
    pointers, _ = records([8, -1, 9], 12)
    assert clock.millis(pointers).tolist() == [8, -1, 9]
    assert clock.word is None
