"""Records in librdkafka's memory as Arrow columns, without a Python object for any of them.

A record is a `rd_kafka_message_t` of nine words: error, topic, partition, payload, its length,
key, its length, offset, private. Its payload and key lie in the buffer the broker's answer came
in. Everything here is valid until the records are destroyed; every array made is a copy.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from ctypes import c_size_t, c_void_p
from functools import cache

import numpy as np
import pyarrow as pa
from attrs import frozen

from penstock.contracts import ENVELOPE
from penstock.contracts.envelope import TIMESTAMP, stamps
from penstock_kafka import details
from penstock_kafka.librdkafka import lib
from penstock_kafka.positions import Place
from penstock_kafka.source import SPARK_COLUMNS, KafkaSource

_HEADERS = ENVELOPE.field("headers").type
_WORDS = 9
_INLINE = 12
"""Arrow's views hold up to so many bytes themselves, longer ones by reference."""
_FARTHEST = 2**31
"""A view holds a distance from the first piece in 32 bits."""


@frozen
class Wanted:
    """Which columns to make."""

    columns: str
    headers: bool
    id_header: str | None

    @classmethod
    def by(cls, source: KafkaSource) -> Wanted:
        """As the source's options say."""
        return cls(source.columns, source.headers, source.id_header)


class Memory:
    """The words of some records, gathered by their addresses."""

    def __init__(self, pointers: np.ndarray, words: np.ndarray | None = None) -> None:
        self.pointers = pointers
        self.words = _gather(pointers) if words is None else words

    def slice(self, first: int, last: int) -> Memory:
        """Some of them."""
        if last - first == len(self.pointers):
            return self
        return Memory(self.pointers[first:last], self.words[:, first:last])

    def errors(self) -> np.ndarray:
        """0, or why it is no record. The upper half of the word is padding."""
        return self.words[0].astype(np.int32)

    def topics(self) -> np.ndarray:
        """Addresses of the topic handles."""
        return self.words[1]

    def partitions(self) -> np.ndarray:
        """Partition numbers; the upper half of the word is padding."""
        return self.words[2].astype(np.int32)

    def offsets(self) -> np.ndarray:
        """Offsets, rising within a partition."""
        return self.words[7]

    def values(self) -> pa.Array:
        """Payloads; null for a tombstone."""
        return _binary(self.words[3], self.words[4])

    def keys(self) -> pa.Array:
        """Keys; null where there is none."""
        return _binary(self.words[5], self.words[6])


def _gather(pointers: np.ndarray) -> np.ndarray:
    base = int(pointers.min())
    span = (int(pointers.max()) - base) // 8 + _WORDS
    memory = np.frombuffer(pa.foreign_buffer(base, span * 8), np.int64)
    first = (pointers - base) >> 3
    words = np.empty((_WORDS - 1, len(pointers)), np.int64)
    for word in range(_WORDS - 1):
        np.take(memory, first + word, out=words[word])
    return words


def _binary(addresses: np.ndarray, lengths: np.ndarray) -> pa.Array:
    """Copy pieces of memory into one Arrow array; a null address gives null."""
    count = len(addresses)
    if not count:
        return pa.array([], pa.binary())
    missing = addresses == 0
    gaps = bool(missing.any())
    if gaps and missing.all():
        return pa.nulls(count, pa.binary())
    there = addresses[~missing] if gaps else addresses
    base = int(there.min())
    span = int(there.max()) + int(lengths.max()) - base
    starts = np.where(missing, 0, addresses - base) if gaps else addresses - base
    memory = pa.foreign_buffer(base, max(span, 1))
    lengths = np.where(missing, 0, lengths) if gaps else lengths
    if span < _FARTHEST:
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little")) if gaps else None
        buffers = [valid, pa.py_buffer(_views(starts, lengths, memory)), memory]
        return pa.Array.from_buffers(pa.binary_view(), count, buffers).cast(pa.binary())
    # In the order of their addresses pieces and the gaps between them make one Arrow array, of
    # which every second element is taken.
    order = np.argsort(starts, kind="stable")
    edges = np.empty(2 * count + 1, np.int64)
    edges[:-1:2] = starts[order]
    edges[1::2] = edges[:-1:2] + lengths[order]
    edges[-1] = edges[-2]
    pieces = pa.Array.from_buffers(
        pa.large_binary(), 2 * count, [None, pa.py_buffer(edges), memory]
    )
    chosen = np.empty(count, np.int64)
    chosen[order] = np.arange(0, 2 * count, 2)
    return pieces.take(pa.array(chosen, mask=missing if gaps else None)).cast(pa.binary())


def _views(starts: np.ndarray, lengths: np.ndarray, memory: pa.Buffer) -> np.ndarray:
    """Arrow's views of pieces: a length, and where it lies, or the piece itself if it is short."""
    views = np.zeros((len(starts), 4), np.int32)
    views[:, 0] = lengths
    views[:, 3] = starts
    few = lengths <= _INLINE
    if not few.any():
        return views
    inline = views.view(np.uint8)
    # By length, so that no byte beyond a piece is touched: it may be the last of its page.
    for length in np.flatnonzero(np.bincount(lengths[few])).tolist():
        same = lengths == length
        rows = slice(None) if same.all() else np.flatnonzero(same)
        inline[rows, 4:] = 0
        if length:
            window = np.ndarray((memory.size - length + 1,), f"V{length}", memory, strides=(1,))
            inline[rows, 4 : 4 + length] = window[starts[rows]].view(np.uint8).reshape(-1, length)
    return views


def columns(memory: Memory, place: Place, wanted: Wanted) -> pa.RecordBatch:
    """Records of one partition in the source's schema."""
    topic, partition = place
    count = len(memory.pointers)
    offsets = pa.array(memory.offsets())
    headers = _headers(memory.pointers.tolist()) if wanted.headers else pa.nulls(count, _HEADERS)
    moments = _timestamps(details.times.of(memory.pointers))
    if wanted.columns == "spark":
        epochs = details.epochs.of(memory.pointers)
        arrays = [
            memory.keys(),
            memory.values(),
            pa.repeat(topic, count),
            pa.repeat(pa.scalar(partition, pa.int32()), count),
            offsets,
            moments,
            # Spark counts from 0: set by the producer, by the broker.
            pa.array(details.kinds.of(memory.pointers) - 1),
            headers,
            pa.array(epochs, mask=epochs < 0),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=SPARK_COLUMNS)
    ids = pa.nulls(count, pa.string()) if wanted.id_header is None else _ids(headers, wanted)
    stamp = stamps(topic, str(partition), offsets)
    arrays = [memory.keys(), memory.values(), headers, moments, ids, stamp]
    return pa.RecordBatch.from_arrays(arrays, schema=ENVELOPE)


def _timestamps(found: np.ndarray) -> pa.Array:
    unknown = found < 0
    mask = unknown if unknown.any() else None
    return pa.array(found * 1000, pa.int64(), mask=mask).cast(TIMESTAMP)


def _headers(pointers: list[int]) -> pa.Array:
    rk = lib()
    lists = np.zeros(len(pointers), np.int64)
    asked = map(rk.message_headers, pointers, _slots(lists))
    there = np.fromiter(asked, np.int32, len(pointers)) == 0
    if not there.any():
        return pa.nulls(len(pointers), _HEADERS)
    found = lists[there]
    many = np.zeros(len(pointers), np.int64)
    many[there] = np.fromiter(map(rk.header_cnt, found.tolist()), np.int64, len(found))
    ends = np.cumsum(many)
    total = int(ends[-1])
    names, values, sizes = np.zeros((3, total), np.int64)
    index = np.arange(total) - np.repeat(ends - many, many)
    each = np.repeat(lists, many).tolist()
    into = map(_slots, (names, values, sizes))
    deque(map(rk.header_get_all, each, index.tolist(), *into), maxlen=0)
    lengths = np.fromiter(map(_strlen(), names.tolist()), np.int64, total)
    both = [_text(_binary(names, lengths)), _binary(values, sizes)]
    pairs = pa.StructArray.from_arrays(both, fields=list(_HEADERS.value_type))
    edges = pa.array(np.concatenate([[0], ends]), pa.int32())
    return pa.ListArray.from_arrays(edges, pairs, type=_HEADERS, mask=pa.array(~there))


def _text(names: pa.Array) -> pa.Array:
    """Names are text by Kafka's protocol, but nobody checks what a producer sends."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()])


@cache
def _strlen() -> Callable[[int], int]:
    found = ctypes.PyDLL(None).strlen
    found.restype, found.argtypes = c_size_t, [c_void_p]
    return found


def _slots(words: np.ndarray) -> range:
    """The address of each word, for functions that answer into memory."""
    return range(words.ctypes.data, words.ctypes.data + words.nbytes, 8)


def _ids(headers: pa.Array, wanted: Wanted) -> pa.Array:
    ids = []
    for each in headers.to_pylist():
        value = next((h["value"] for h in each or () if h["key"] == wanted.id_header), None)
        ids.append(None if value is None else value.decode("utf-8", "replace"))
    return pa.array(ids, pa.string())
