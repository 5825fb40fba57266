"""Positions, parts and limits: pure functions."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.contracts.errors import PositionError
from penstock_kafka.limits import spread
from penstock_kafka.positions import KafkaPart, Offsets, Range, parse, parts, ranges

places = st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 5))
offsets = st.integers(0, 10**12)


@settings(deadline=None)
@given(st.dictionaries(places, offsets), st.data())
def test_a_position_survives_json(at, data):
    some = data.draw(st.sets(st.sampled_from(sorted(at)))) if at else set()
    made = Offsets(at, {place: at[place] for place in some}, {t: f"id-{t}" for t, _ in at})
    assert parse(json.loads(json.dumps(made.position()))) == made


def test_a_partition_the_start_does_not_know_begins_where_the_end_says():
    start = Offsets({("t", 0): 5}, {}, {"t": "x"})
    end = Offsets({("t", 0): 5, ("t", 1): 9}, {("t", 1): 3}, {"t": "x"})
    assert ranges(start, end) == [Range("t", 1, 3, 9)]


def test_a_topic_made_anew_begins_where_the_end_says():
    start = Offsets({("t", 0): 50}, {}, {"t": "old"})
    end = Offsets({("t", 0): 9}, {("t", 0): 0}, {"t": "new"})
    assert ranges(start, end) == [Range("t", 0, 0, 9)]


def test_an_end_before_its_start_is_refused():
    with pytest.raises(PositionError, match="ends before"):
        ranges(Offsets({("t", 0): 5}), Offsets({("t", 0): 4}))


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 500), max_size=20),
    st.one_of(st.none(), st.integers(1, 100)),
    st.integers(0, 300),
)
def test_parts_cover_the_ranges_once_and_in_order(sizes, split, group):
    found = [Range("t", p, 10, 10 + size) for p, size in enumerate(sizes)]
    made = parts(found, split_rows=split, group_rows=group)
    read = [
        (r.partition, offset)
        for part in made
        for r in part.ranges
        for offset in range(r.start, r.end)
    ]
    wanted = [(r.partition, offset) for r in found for offset in range(r.start, r.end)]
    assert sorted(read) == wanted
    assert len(set(read)) == len(read)
    if split is None:
        assert all(len(part.ranges) == 1 or len(part) <= group for part in made)
    else:
        assert all(len(part) <= split for part in made)


def test_no_grouping_gives_each_partition_its_task():
    found = [Range("t", p, 0, 1) for p in range(3)]
    assert parts(found, split_rows=None, group_rows=0) == [KafkaPart((r,)) for r in found]


@settings(deadline=None)
@given(st.dictionaries(places, st.integers(0, 1000)), st.integers(1, 2000))
def test_rows_are_spread_within_the_limit_and_none_is_left_while_there_is_room(available, rows):
    given_rows = spread(available, rows)
    total = sum(available.values())
    assert all(0 <= n <= available[place] for place, n in given_rows.items())
    assert sum(given_rows.values()) == min(total, rows)
