"""The merge of partitions by event time, against a merge of whole lists."""

import heapq

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_kafka.merging import Merge

TIMES = st.lists(st.one_of(st.none(), st.integers(0, 20)), max_size=30)


def rows(place, times):
    moments = pa.array(times, pa.timestamp("us", tz="UTC"))
    numbers = [(place, number) for number in range(len(times))]
    return pa.RecordBatch.from_arrays([moments, pa.array(map(str, numbers))], ["event_time", "n"])


def whole(shares):
    """What a merge of complete partitions gives: (place, number) pairs."""
    keyed = []
    for place, times in sorted(shares.items()):
        latest = -1
        keyed.append([])
        for number, time in enumerate(times):
            latest = max(latest, -1 if time is None else time)
            keyed[-1].append((latest, place, number))
    return [(place, number) for _, place, number in heapq.merge(*keyed)]


@settings(deadline=None)
@given(st.lists(TIMES, min_size=1, max_size=4), st.data())
def test_whatever_comes_first_the_order_is_the_same(lists, data):
    shares = {("t", p): times for p, times in enumerate(lists)}
    merge = Merge(list(shares))
    left = dict.fromkeys(shares, 0)
    found = []
    while left:
        place = data.draw(st.sampled_from(sorted(left)))
        size = data.draw(st.integers(1, 8))
        piece = rows(place, shares[place]).slice(left[place], size)
        if piece.num_rows:
            merge.add(place, piece)
        left[place] += size
        if left[place] >= len(shares[place]):
            del left[place]
            merge.end(place)
        ready = merge.ready()
        found += ready["n"].to_pylist() if ready is not None else []
    assert found == [str(each) for each in whole(shares)]


def test_rows_wait_for_the_partition_that_is_behind_and_no_longer():
    merge = Merge([("a", 0), ("b", 0)])
    merge.add(("a", 0), rows(("a", 0), [1, 5, 9]))
    assert merge.ready() is None
    assert merge.behind() == ("b", 0)
    merge.add(("b", 0), rows(("b", 0), [5]))
    assert merge.ready()["event_time"].cast(pa.int64()).to_pylist() == [1, 5, 5]
    assert (merge.ahead(("a", 0)), merge.ahead(("b", 0))) == (1, 0)
