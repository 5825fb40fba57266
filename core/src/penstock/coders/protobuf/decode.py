"""Protobuf messages to columns: the next field of all messages at once.

Writers put fields in one order, so that in each turn nearly all messages show the same tag.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from attrs import define, field

from penstock.coders.avro.leaves import text
from penstock.coders.cursors import At, Buffer, Ints, Rows, fixed, varints, zigzag
from penstock.coders.maps import map_of
from penstock.coders.numbers import from_words
from penstock.coders.pieces import slices
from penstock.coders.protobuf.types import WIRE, Field, Message

FEW = 32
MANY = 256
"""Fewer than FEW messages after MANY fields are cheaper one by one."""
_MASK32 = np.int64(0xFFFFFFFF)
_SECONDS = 2**63 // 1_000_000 - 1
_SIZES = {"fixed32": 4, "fixed64": 8}


@define
class _Seen:
    """Where a field's values were met, turn by turn: whose, and from where to where."""

    owners: list[Rows] = field(factory=list)
    starts: list[Ints] = field(factory=list)
    ends: list[Ints] = field(factory=list)

    def add(self, owners: Rows, starts: Ints, ends: Ints) -> None:
        self.owners.append(owners)
        self.starts.append(starts)
        self.ends.append(ends)

    def all(self) -> tuple[Rows, Ints, Ints]:
        if len(self.owners) == 1:
            return self.owners[0], self.starts[0], self.ends[0]
        whole = [np.concatenate(each) for each in (self.owners, self.starts, self.ends)]
        return whole[0], whole[1], whole[2]


class Decoding:
    """One batch under way; afterwards the buffer knows the bad rows and those left over."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer

    def columns(self, message: Message) -> list[pa.Array]:
        count = len(self.buffer.starts)
        at = At(self.buffer.starts, self.buffer.ends, np.arange(count))
        return self.message(message, at, "")

    def message(self, message: Message, at: At, path: str) -> list[pa.Array]:
        """The columns of messages that each fill the bytes from their cursor to its end."""
        seen = self.scan(message, at, path)
        for group in message.oneofs:
            met = [seen[number] for number in group if number in seen]
            if len(met) > 1:
                counts = sum(np.bincount(np.unique(m.all()[0]), minlength=len(at)) for m in met)
                # The last one met counts: for the reference to find.
                self.buffer.left[at.rows[np.asarray(counts) > 1]] = True
        return [self.column(f, seen.get(f.number), at, f"{path}{f.name}") for f in message.fields]

    def scan(self, message: Message, at: At, path: str) -> dict[int, _Seen]:
        """Where the values of each field are."""
        known = {f.number: f for f in message.fields}
        rivals = {number for group in message.oneofs for number in group} - set(known)
        seen: dict[int, _Seen] = {}
        pos = at.pos.copy()
        live = np.flatnonzero(pos < at.end)
        turn = 0
        while len(live):
            turn += 1
            if turn > MANY and len(live) < FEW:
                self.buffer.left[at.rows[live]] = True
                break
            here = At(pos[live], at.end[live], at.rows[live])
            tags, after = varints(self.buffer, here.pos)
            # A tag has at most five bytes; more of them are refused as a number too large.
            tags = np.where(after - here.pos > 5, np.uint64(2**32), tags)
            here = here.moved(self.buffer, after, f"{_who(path)} is cut off in a tag")
            for tag, which in _groups(tags.view(np.int64)):
                one = here if len(which) == len(here) else here.some(which)
                starts, ends = self.payload(tag, one, path)
                pos[live[which]] = ends
                found = known.get(tag >> 3)
                # Another wire type than declared makes a field unknown, says Protobuf.
                if found is not None and _fits(found, tag & 7):
                    seen.setdefault(found.number, _Seen()).add(live[which], starts, ends)
                elif tag >> 3 in rivals:
                    seen.setdefault(tag >> 3, _Seen()).add(live[which], starts, ends)
            live = live[pos[live] < at.end[live]]
        return seen

    def payload(self, tag: int, at: At, path: str) -> tuple[Ints, Ints]:
        """Where the value after a tag begins and ends."""
        wire, said = tag & 7, f"{_who(path)} is cut off"
        if wire == 3 and 8 <= tag < 2**32:
            # A group, long deprecated: for the reference to skip.
            self.buffer.left[at.rows] = True
            return at.end, at.end
        if not 8 <= tag < 2**32 or wire in (4, 6, 7):
            self.buffer.blame(at.rows, f"{_who(path)} has an impossible tag")
            return at.end, at.end
        if wire == 0:
            _, after = varints(self.buffer, at.pos)
            return at.pos, at.moved(self.buffer, after, said).pos
        if wire in (1, 5):
            return at.pos, at.moved(self.buffer, at.pos + (8 if wire == 1 else 4), said).pos
        size, after = varints(self.buffer, at.pos)
        inner = at.moved(self.buffer, after, said)
        length = size.view(np.int64)
        wrong = (length < 0) | (length > inner.end - inner.pos)
        if wrong.any():
            self.buffer.blame(at.rows[wrong], said)
            start = np.where(wrong, inner.end, inner.pos)
            return start, np.where(wrong, inner.end, inner.pos + length)
        return inner.pos, inner.pos + length

    def column(self, f: Field, seen: _Seen | None, at: At, path: str) -> pa.Array:
        if f.shape != "one":
            return self.many(f, seen, at, path)
        count = len(at)
        if seen is None:
            absent = f.presence or f.wire == "message"
            return pa.nulls(count, f.type) if absent else self.default(f, at)
        owners, starts, ends = seen.all()
        if len(seen.owners) > 1:
            owners, starts, ends = self.last(f, owners, starts, ends, at)
        if len(owners) == count:
            return self.values(f, At(starts, ends, at.rows), path)
        if f.presence or f.wire == "message":
            found = self.values(f, At(starts, ends, at.rows[owners]), path)
            index = np.zeros(count, np.int64)
            index[owners] = np.arange(len(owners))
            missing = np.ones(count, bool)
            missing[owners] = False
            return found.take(pa.array(index, mask=missing))
        # Absent means the default: an empty text, or a zero read from the padding.
        first = at.pos.copy() if f.wire == "bytes" else np.zeros(count, np.int64)
        last = first.copy()
        first[owners], last[owners] = starts, ends
        return self.values(f, At(first, last, at.rows), path)

    def default(self, f: Field, at: At) -> pa.Array:
        zeros = np.zeros(1, np.int64)
        one = self.values(f, At(zeros, zeros, at.rows[:1]), f.name) if len(at) else None
        return pa.repeat(one[0], len(at)) if one is not None else pa.array([], f.type)

    def last(
        self, f: Field, owners: Rows, starts: Ints, ends: Ints, at: At
    ) -> tuple[Rows, Ints, Ints]:
        """The last value of each message, in the order of the messages."""
        order = np.argsort(owners, kind="stable")
        owners, starts, ends = owners[order], starts[order], ends[order]
        final = np.append(owners[1:] != owners[:-1], True)
        if f.wire == "message" and not final.all():
            # Messages that come twice are merged: for the reference to do.
            self.buffer.left[at.rows[owners[~final]]] = True
        return owners[final], starts[final], ends[final]

    def many(self, f: Field, seen: _Seen | None, at: At, path: str) -> pa.Array:
        offsets = np.zeros(len(at) + 1, np.int32)
        if seen is None:
            items = pa.array([], f.type)
        else:
            owners, starts, ends = seen.all()
            if len(seen.owners) > 1:
                order = np.argsort(owners, kind="stable")
                owners, starts, ends = owners[order], starts[order], ends[order]
            if f.wire not in ("bytes", "message"):
                owners, starts, ends = self.unpacked(f, owners, starts, ends, at, path)
            np.cumsum(np.bincount(owners, minlength=len(at)), out=offsets[1:])
            items = self.values(f, At(starts, ends, at.rows[owners]), path)
        if f.shape == "map":
            key, value = items.flatten()
            return map_of(pa.array(offsets), key, value, f.column)
        return pa.ListArray.from_arrays(pa.array(offsets), items, type=f.column)

    def unpacked(
        self, f: Field, owners: Rows, starts: Ints, ends: Ints, at: At, path: str
    ) -> tuple[Rows, Ints, Ints]:
        """Each number of packed fields on its own; those not packed stay as they are."""
        data = self.buffer.data
        size = _SIZES.get(f.wire)
        if size is not None:
            counts = (ends - starts) // size
            torn = (ends - starts) % size != 0
            place = _places(counts)
            first = np.repeat(starts, counts) + place * size
            after = first + size
        else:
            stops = np.flatnonzero(data < 0x80)
            low, high = np.searchsorted(stops, starts), np.searchsorted(stops, ends)
            counts = high - low
            torn = (ends > starts) & (data[np.maximum(ends - 1, 0)] >= 0x80)
            place = _places(counts)
            number = np.repeat(low, counts) + place
            after = stops[number] + 1
            first = np.where(place == 0, np.repeat(starts, counts), stops[number - 1] + 1)
        if torn.any():
            self.buffer.blame(at.rows[owners[torn]], f"{path} is cut off within a number")
        return np.repeat(owners, counts), first, after

    def values(self, f: Field, at: At, path: str) -> pa.Array:
        """The values between each cursor and its end."""
        buffer = self.buffer
        if f.message is not None:
            columns = self.message(f.message, at, f"{path}.")
            if f.stamp:
                return self.stamps(columns, at, path)
            kind = f.message.type
            if not columns:
                return pa.array([{}] * len(at), kind)
            return pa.StructArray.from_arrays(columns, fields=list(kind))
        if f.wire == "bytes":
            array = slices(buffer.data, at.pos, at.end)
            return text(buffer, array, at, path) if pa.types.is_string(f.type) else array
        if f.wire in _SIZES:
            return _fixed(buffer, f, at)
        found, after = varints(buffer, at.pos)
        long = after - at.pos > 10
        if long.any():
            buffer.blame(at.rows[long], f"{path} has a number that is too long")
        numbers = zigzag(found) if f.wire == "zigzag" else found.view(np.int64)
        return _number(f, numbers)

    def stamps(self, columns: list[pa.Array], at: At, path: str) -> pa.Array:
        seconds, nanos = np.asarray(columns[0]), np.asarray(columns[1]).astype(np.int64)
        wide = (np.abs(seconds) > _SECONDS) | (nanos < 0) | (nanos >= 1_000_000_000)
        if wide.any():
            self.buffer.blame(at.rows[wide], f"{path} is out of the range of a timestamp")
            seconds = np.where(wide, 0, seconds)
        return pa.array(seconds * 1_000_000 + nanos // 1000).view(pa.timestamp("us", "UTC"))


def _who(path: str) -> str:
    return path.rstrip(".") or "it"


def _groups(tags: Ints) -> list[tuple[int, Rows]]:
    if (tags == tags[0]).all():
        return [(int(tags[0]), np.arange(len(tags)))]
    return [(int(tag), np.flatnonzero(tags == tag)) for tag in np.unique(tags)]


def _places(counts: Ints) -> Ints:
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def _fits(f: Field, wire: int) -> bool:
    plain = WIRE[f.wire]
    return wire == plain or (wire == 2 and f.shape == "many" and plain != 2)


def _fixed(buffer: Buffer, f: Field, at: At) -> pa.Array:
    if pa.types.is_floating(f.type):
        return pa.array(fixed(buffer, at.pos, "<f4" if f.wire == "fixed32" else "<f8"))
    if f.wire == "fixed32":
        kind = "<u4" if pa.types.is_int64(f.type) else "<i4"
        return pa.array(fixed(buffer, at.pos, kind)).cast(f.type)
    numbers = fixed(buffer, at.pos, "<i8").astype(np.int64)
    return pa.array(numbers) if pa.types.is_int64(f.type) else _unsigned(numbers)


def _unsigned(numbers: Ints) -> pa.Array:
    return from_words(numbers, np.zeros(len(numbers), np.int64), pa.decimal128(20, 0))


def _number(f: Field, numbers: Ints) -> pa.Array:
    if f.symbols:
        return _names(f, numbers.astype(np.int32))
    if pa.types.is_boolean(f.type):
        return pa.array(numbers != 0)
    if pa.types.is_int32(f.type):
        return pa.array(numbers.astype(np.int32))
    if pa.types.is_decimal(f.type):
        return _unsigned(numbers)
    unsigned32 = f.kind == 13
    return pa.array(numbers & _MASK32 if unsigned32 else numbers)


def _names(f: Field, numbers: np.ndarray) -> pa.Array:
    """An enum's names; a number without one is written as it is."""
    known = np.array([number for number, _ in f.symbols], np.int32)
    names = pa.array([name for _, name in f.symbols], pa.string())
    order = np.argsort(known)
    place = order[np.minimum(np.searchsorted(known[order], numbers), len(known) - 1)]
    missing = known[place] != numbers
    found = names.take(pa.array(place))
    if missing.any():
        return pa.compute.if_else(pa.array(missing), pa.array(numbers).cast(pa.string()), found)
    return found
