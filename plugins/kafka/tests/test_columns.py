"""Copying pieces of memory into Arrow and back: no server."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_kafka.columns import _binary
from penstock_kafka.records import addresses

values = st.lists(st.one_of(st.none(), st.binary(max_size=40)), min_size=1, max_size=60)


@settings(deadline=None)
@given(values, st.randoms(use_true_random=False))
def test_pieces_in_any_order_of_memory_come_out_as_they_were(pieces, random):
    kept = list(pieces)
    order = list(range(len(kept)))
    random.shuffle(order)
    memory = bytearray(b"#")
    starts = {}
    for index in order:
        starts[index] = len(memory)
        memory += (kept[index] or b"") + b"###"
    block = np.frombuffer(bytes(memory), np.uint8)
    base = block.ctypes.data
    where = np.array([0 if v is None else base + starts[i] for i, v in enumerate(kept)], np.int64)
    sizes = np.array([len(v or b"") for v in kept], np.int64)
    made = _binary(where, sizes)
    made.validate(full=True)
    assert made.to_pylist() == kept


def test_pieces_too_far_apart_for_views_are_sorted_by_their_addresses(monkeypatch):
    monkeypatch.setattr("penstock_kafka.columns._FARTHEST", 0)
    array = pa.array([b"first", None, b"", b"a longer one, not inline"], pa.binary())
    assert _binary(*addresses(array)).to_pylist() == array.to_pylist()


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.binary(min_size=13, max_size=60)), min_size=1))
def test_long_pieces_take_the_way_by_views(pieces):
    array = pa.array(pieces, pa.binary())
    made = _binary(*addresses(array))
    made.validate(full=True)
    assert made.to_pylist() == pieces


@settings(deadline=None)
@given(values, st.integers(0, 59))
def test_addresses_respect_slices_and_nulls(pieces, first):
    array = pa.array(pieces, pa.binary()).slice(min(first, len(pieces) - 1))
    assert _binary(*addresses(array)).to_pylist() == array.to_pylist()
