"""Avro records to columns: one step of the plan under all cursors at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.coders.avro import leaves
from penstock.coders.avro.resolve import Choice, Entries, Items, Leaf, Plan, Struct, Symbols
from penstock.coders.avro.types import Primitive
from penstock.coders.avro.walk import MAX_EMPTY, Walk
from penstock.coders.cursors import At, Buffer, Ints, Rows
from penstock.coders.maps import map_of
from penstock.contracts.errors import CodecError

FEW = 32
MANY = 64
"""Of fewer than FEW records with more than MANY items (or blocks) to go, the items are found one
by one and then read together."""

_INSIDE = Leaf(Primitive("string"), Primitive("string"))


class Decoding:
    """One batch under way.

    Attributes:
        buffer: Its bytes; afterwards it knows the bad rows and why they are.
    """

    def __init__(self, values: pa.Array, skip: int = 0) -> None:
        self.buffer = Buffer(values, skip)

    def columns(self, plan: Plan) -> list[pa.Array]:
        """The columns of all rows; those of bad rows mean nothing."""
        count = len(self.buffer.starts)
        at = At(self.buffer.starts, self.buffer.ends, np.arange(count))
        if isinstance(plan, Struct):
            found, at = self.fields(plan, at, "", True)
        else:
            array, at = self.read(plan, at, "value", True)
            found = [array]
        left = at.pos < at.end
        if left.any():
            self.buffer.blame(np.flatnonzero(left), "bytes are left over after the record")
        return found

    def read(self, plan: Plan, at: At, path: str, want: bool) -> tuple[pa.Array, At]:
        if isinstance(plan, Leaf):
            return leaves.read(self.buffer, plan, at, path, want)
        if isinstance(plan, Struct):
            columns, at = self.fields(plan, at, f"{path}.", want)
            if not want:
                return None, at
            if not columns:
                return pa.array([{}] * len(at), plan.type), at
            return pa.StructArray.from_arrays(columns, fields=list(plan.type)), at
        if isinstance(plan, Symbols):
            return self.symbols(plan, at, path, want)
        if isinstance(plan, Choice):
            return self.choice(plan, at, path, want)
        if isinstance(plan, Items):
            return self.items(plan, at, path, want)
        return self.entries(plan, at, path, want)

    def fields(self, plan: Struct, at: At, path: str, want: bool) -> tuple[list[pa.Array], At]:
        names = [field.name for field in plan.type]
        columns: list[pa.Array] = [None] * len(names)
        for number, (step, index) in enumerate(plan.steps):
            name = f"field {number + 1}" if index is None else names[index]
            array, at = self.read(step, at, path + name, want and index is not None)
            if index is not None:
                columns[index] = array
        if want:
            for index, default in plan.added:
                columns[index] = pa.repeat(default, len(at))
        return columns, at

    def symbols(self, plan: Symbols, at: At, path: str, want: bool) -> tuple[pa.Array, At]:
        index, at = leaves.longs(self.buffer, at, path)
        wrong = (index < 0) | (index >= len(plan.texts))
        if wrong.any():
            self.buffer.blame(at.rows[wrong], f"{path} has an enum index out of range")
            index = np.where(wrong, 0, index)
        if not want:
            return None, at
        array = pa.array(plan.texts, pa.string()).take(pa.array(index))
        if None in plan.texts and array.null_count:
            unknown = np.asarray(array.is_null()) & ~wrong
            said = f"{path} has a symbol that the reader's schema lacks"
            self.buffer.blame(at.rows[unknown], said)
        return array, at

    def choice(self, plan: Choice, at: At, path: str, want: bool) -> tuple[pa.Array, At]:
        if plan.indexed:
            index, at = leaves.longs(self.buffer, at, path)
        else:
            index = np.zeros(len(at), np.int64)
        pos = at.pos.copy()
        taken = np.zeros(len(at), bool)
        parts: list[tuple[int, Rows, pa.Array]] = []
        for number, (step, member) in enumerate(plan.branches):
            which = np.flatnonzero(index == number)
            if not len(which):
                continue
            if step is None:
                said = f"{path} has a type that the reader's schema lacks"
                self.buffer.blame(at.rows[which], said)
                pos[which] = at.end[which]
            elif member is not None:
                whole = len(which) == len(at)
                array, after = self.read(step, at if whole else at.some(which), path, want)
                pos[which] = after.pos
                parts.append((member, which, array))
            taken[which] = True
        if not taken.all():
            lost = ~taken
            self.buffer.blame(at.rows[lost], f"{path} has a union branch out of range")
            pos[lost] = at.end[lost]
        at = At(pos, at.end, at.rows)
        return (_members(plan, len(at), parts) if want else None), at

    def items(self, plan: Items, at: At, path: str, want: bool) -> tuple[pa.Array, At]:
        def one(inner: At) -> tuple[list[pa.Array], At]:
            array, after = self.read(plan.items, inner, f"{path}[]", want)
            return [array], after

        offsets, arrays, at = self.blocks(at, path, one, Walk(plan.items), want)
        if not want:
            return None, at
        items = arrays[0] if arrays else pa.array([], plan.type.value_type)
        return pa.ListArray.from_arrays(offsets, items, type=plan.type), at

    def entries(self, plan: Entries, at: At, path: str, want: bool) -> tuple[pa.Array, At]:
        def one(inner: At) -> tuple[list[pa.Array], At]:
            key, inner = self.read(_INSIDE, inner, f"{path} key", want)
            value, inner = self.read(plan.values, inner, f"{path}[]", want)
            return [key, value], inner

        way = Walk(Struct(((_INSIDE, 0), (plan.values, 1)), plan.type, ()))
        offsets, arrays, at = self.blocks(at, path, one, way, want)
        if not want:
            return None, at
        empty = [pa.array([], plan.type.key_type), pa.array([], plan.type.item_type)]
        keys, values = arrays or empty
        return map_of(offsets, keys, values, plan.type), at

    def blocks(
        self, at: At, path: str, one: _One, way: Walk, want: bool
    ) -> tuple[pa.Array, list[pa.Array], At]:
        """Items in blocks, the k-th of all records together; then put in each record's order."""
        pos = at.pos.copy()
        counts = np.zeros(len(at), np.int64)
        rounds: list[_Round] = []
        live: Rows = np.arange(len(at))
        for block in itertools.count():
            inner = At(pos[live], at.end[live], at.rows[live])
            if block > MANY and len(live) < FEW:
                steps = [way.blocks] * len(live)
                pos[live] = self.walked(inner, live, counts[live], path, one, steps, rounds)
                break
            count, inner = self.count(inner, path, way.smallest, counts[live])
            pos[live] = inner.pos
            filled = np.flatnonzero(count)
            live = live[filled]
            if not len(live):
                break
            inner, count = inner.some(filled), count[filled]
            if way.size is not None:
                pos[live] = self.flat(inner, live, count, counts[live], one, way.size, rounds)
            else:
                pos[live] = self.turns(inner, live, count, counts[live], path, one, way, rounds)
            counts[live] += count
        return *_in_order(rounds, len(at), want), At(pos, at.end, at.rows)

    def count(self, at: At, path: str, smallest: int, before: Ints) -> tuple[Ints, At]:
        """How many items each record's next block holds, after those before it."""
        count, at = leaves.longs(self.buffer, at, path)
        sized = np.flatnonzero(count < 0)
        if len(sized):
            _, after = leaves.longs(self.buffer, at.some(sized), path)
            pos = at.pos.copy()
            pos[sized] = after.pos
            at = At(pos, at.end, at.rows)
            count = np.abs(count)
        room = (at.end - at.pos) // smallest if smallest else MAX_EMPTY - before
        # A parked cursor reads its neighbour's bytes, which mean nothing for it.
        count = np.where(self.buffer.bad[at.rows], 0, count)
        wrong = (count > room) | (count < 0)
        if wrong.any():
            self.buffer.blame(at.rows[wrong], f"{path} claims more items than there are bytes")
            count = np.where(wrong, 0, count)
            at = At(np.where(wrong, at.end, at.pos), at.end, at.rows)
        return count, at

    def turns(
        self,
        at: At,
        live: Rows,
        count: Ints,
        before: Ints,
        path: str,
        one: _One,
        way: Walk,
        rounds: list[_Round],
    ) -> Ints:
        """The first item of every block, then the second, and so on; where they end."""
        pos = at.pos.copy()
        most = int(count.max())
        for turn in range(most):
            here = np.flatnonzero(count > turn)
            inner = At(pos[here], at.end[here], at.rows[here])
            if len(here) < FEW and most - turn > MANY:
                steps = [partial(way.several, count=n) for n in (count[here] - turn).tolist()]
                done = before[here] + turn
                pos[here] = self.walked(inner, live[here], done, path, one, steps, rounds)
                break
            arrays, after = one(inner)
            pos[here] = after.pos
            rounds.append((live[here], before[here] + turn, arrays))
        return pos

    def walked(
        self,
        at: At,
        live: Rows,
        before: Ints,
        path: str,
        one: _One,
        steps: Sequence[_Steps],
        rounds: list[_Round],
    ) -> Ints:
        """All items at once, each found by a walk of its own record; where they end."""
        pos = at.end.copy()
        starts: list[Ints] = [np.empty(0, np.int64)] * len(at)
        for index, row in enumerate(at.rows.tolist()):
            if self.buffer.bad[row]:
                continue
            base = int(at.pos[index])
            data = self.buffer.data[base : int(at.end[index])].tobytes()
            try:
                found, end = steps[index](data, 0)
            except CodecError as error:
                self.buffer.blame(at.rows[index : index + 1], f"{path}: {error.message}")
                continue
            starts[index] = np.array(found, np.int64) + base
            pos[index] = base + end
        count = np.array([len(each) for each in starts])
        place = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        inner = At(np.concatenate(starts), np.repeat(at.end, count), np.repeat(at.rows, count))
        arrays, _ = one(inner)
        rounds.append((np.repeat(live, count), np.repeat(before, count) + place, arrays))
        return pos

    def flat(
        self,
        at: At,
        live: Rows,
        count: Ints,
        before: Ints,
        one: _One,
        fixed: int,
        rounds: list[_Round],
    ) -> Ints:
        """All items at once, because each takes the same number of bytes."""
        place = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        starts = np.repeat(at.pos, count) + place * fixed
        arrays, _ = one(At(starts, np.repeat(at.end, count), np.repeat(at.rows, count)))
        rounds.append((np.repeat(live, count), np.repeat(before, count) + place, arrays))
        return at.pos + count * fixed


_One = Callable[[At], tuple[list[pa.Array], At]]
_Steps = Callable[[bytes, int], tuple[list[int], int]]
_Round = tuple[Rows, Ints, list[pa.Array]]


def _in_order(rounds: list[_Round], count: int, want: bool) -> tuple[pa.Array, list[pa.Array]]:
    if not rounds or not want:
        return pa.array(np.zeros(count + 1, np.int32)), []
    owners = np.concatenate([owner for owner, _, _ in rounds])
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(owners, minlength=count), out=offsets[1:])
    width = len(rounds[0][2])
    arrays = [pa.concat_arrays([each[i] for _, _, each in rounds]) for i in range(width)]
    if len(rounds) > 1:
        places = np.concatenate([place for _, place, _ in rounds])
        order = np.empty(len(owners), np.int64)
        order[offsets[owners] + places] = np.arange(len(owners))
        arrays = [array.take(pa.array(order)) for array in arrays]
    return pa.array(offsets), arrays


def _members(plan: Choice, count: int, parts: list[tuple[int, Rows, pa.Array]]) -> pa.Array:
    """A union's branches as one column, or as a struct with one member set."""
    if plan.single:
        return _gathered(plan.type, count, [(which, array) for _, which, array in parts])
    columns = [
        _gathered(field.type, count, [(w, a) for member, w, a in parts if member == number])
        for number, field in enumerate(plan.type)
    ]
    filled = np.zeros(count, bool)
    for _, which, _ in parts:
        filled[which] = True
    mask = None if filled.all() else pa.array(~filled)
    return pa.StructArray.from_arrays(columns, fields=list(plan.type), mask=mask)


def _gathered(kind: pa.DataType, count: int, parts: list[tuple[Rows, pa.Array]]) -> pa.Array:
    if not parts:
        return pa.nulls(count, kind)
    if len(parts) == 1 and len(parts[0][0]) == count:
        return parts[0][1]
    index = np.zeros(count, np.int64)
    missing = np.ones(count, bool)
    base = 0
    for which, _ in parts:
        index[which] = np.arange(base, base + len(which))
        missing[which] = False
        base += len(which)
    whole = parts[0][1] if len(parts) == 1 else pa.concat_arrays([array for _, array in parts])
    return whole.take(pa.array(index, mask=missing))
