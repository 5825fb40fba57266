"""Walking through values one by one, to find where they end.

Values have no boundaries: those of very long arrays, and the records of a container file, are
found this way and then read together like all others. A walk costs no more than the bytes it
passes: what takes none is never looked at one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from penstock.coders.avro.resolve import Choice, Entries, Items, Leaf, Plan, Struct, Symbols
from penstock.coders.avro.types import Fixed, Primitive
from penstock.contracts.errors import CodecError

MAX_EMPTY = 1000
"""Items that take no bytes: their number is not bounded by the record's length."""

Step = Callable[[bytes, int], int]
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}


class Walk:
    """The way through values of one plan."""

    def __init__(self, plan: Plan) -> None:
        self.size = size_of(plan)
        self.smallest = least(plan)
        self._plan = plan

    @cached_property
    def _step(self) -> Step:
        return _step(self._plan)

    def several(self, data: bytes, at: int, count: int) -> tuple[list[int], int]:
        """Where each of some values begins, and where the last ends.

        Raises:
            CodecError: they are cut off, or one says something impossible.
        """
        room = (len(data) - at) // self.smallest if self.smallest else MAX_EMPTY
        if not 0 <= count <= room:
            raise CodecError("it claims more items than there are bytes")
        if self.size is not None:
            return [at + i * self.size for i in range(count)], at + count * self.size
        starts, step = [], self._step
        try:
            for _ in range(count):
                starts.append(at)
                at = step(data, at)
        except IndexError:
            raise _cut() from None
        if at > len(data):
            raise _cut()
        return starts, at

    def blocks(self, data: bytes, at: int) -> tuple[list[int], int]:
        """Where each item of an array (or entry of a map) begins, and where the array ends.

        Raises:
            CodecError: they are cut off, or one says something impossible.
        """
        starts: list[int] = []
        step = self._step
        while True:
            try:
                count, at = _count(data, at)
                if count == 1:  # some write arrays item by item
                    starts.append(at)
                    at = step(data, at)
            except IndexError:
                raise _cut() from None
            if not count:
                return starts, at
            if count > 1:
                found, at = self.several(data, at, count)
                starts += found
            elif at > len(data):
                raise _cut()
            if not self.smallest and len(starts) > MAX_EMPTY:
                raise CodecError("it claims more items than there are bytes")


def size_of(plan: Plan) -> int | None:
    """The bytes that each value takes; None if they differ."""
    if isinstance(plan, Leaf):
        written = plan.written
        return written.size if isinstance(written, Fixed) else _SIZES.get(written.kind)
    parts: list[Plan] = []
    if isinstance(plan, Struct):
        parts = [step for step, _ in plan.steps]
    elif isinstance(plan, Choice) and not plan.indexed:
        parts = [step for step, _ in plan.branches if step is not None]
    else:
        return None
    sizes = [size_of(part) for part in parts]
    return None if None in sizes else sum(size for size in sizes if size is not None)


def least(plan: Plan) -> int:
    """The fewest bytes a value can take."""
    size = size_of(plan)
    if size is not None:
        return size
    if isinstance(plan, Struct):
        return sum(least(step) for step, _ in plan.steps)
    if isinstance(plan, Choice) and not plan.indexed:
        return min(least(step) for step, _ in plan.branches if step is not None)
    return 1


def _step(plan: Plan) -> Step:
    size = size_of(plan)
    if size is not None:
        return _further(size)
    if isinstance(plan, Leaf):
        text = isinstance(plan.written, Primitive) and plan.written.kind in ("string", "bytes")
        return _text if text else _number
    if isinstance(plan, Symbols):
        return _number
    if isinstance(plan, Struct):
        return _fields(plan)
    if isinstance(plan, Choice):
        return _branch(plan)
    return _items(plan)


def _fields(plan: Struct) -> Step:
    steps: list[Step] = []
    known = 0
    for each, _ in plan.steps:
        size = size_of(each)
        if size is None:
            steps += [_further(known), _step(each)] if known else [_step(each)]
            known = 0
        else:
            known += size
    if known:
        steps.append(_further(known))
    if len(steps) == 1:
        return steps[0]

    def step(data: bytes, at: int) -> int:
        for one in steps:
            at = one(data, at)
        return at

    return step


def _further(size: int) -> Step:
    return lambda data, at: at + size


def _branch(plan: Choice) -> Step:
    steps = [None if step is None else _step(step) for step, _ in plan.branches]

    def step(data: bytes, at: int) -> int:
        number = 0
        if plan.indexed:
            number, at = _long(data, at)
        if not 0 <= number < len(steps):
            raise CodecError("it has a union branch out of range")
        chosen = steps[number]
        if chosen is None:
            raise CodecError("it has a type that the reader's schema lacks")
        return chosen(data, at)

    return step


def _items(plan: Items | Entries) -> Step:
    key = _text if isinstance(plan, Entries) else None
    inner = plan.values if isinstance(plan, Entries) else plan.items
    size = size_of(inner) if key is None else None
    one = _step(inner)

    def step(data: bytes, at: int) -> int:
        while True:
            count, at = _count(data, at)
            if not count:
                return at
            if size is not None:
                at += count * size
                continue
            for _ in range(count):
                at = one(data, at if key is None else key(data, at))

    return step


def _count(data: bytes, at: int) -> tuple[int, int]:
    count, at = _long(data, at)
    if count < 0:
        _, at = _long(data, at)
    return abs(count), at


def _text(data: bytes, at: int) -> int:
    size, at = _long(data, at)
    if size < 0:
        raise CodecError("it has an impossible length")
    return at + size


def _number(data: bytes, at: int) -> int:
    return _long(data, at)[1]


def _long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    found, shift = byte & 0x7F, 7
    while byte >= 0x80:
        at += 1
        byte = data[at]
        found |= (byte & 0x7F) << shift
        shift += 7
        if shift > 70:
            raise CodecError("it has a number too long")
    return (found >> 1) ^ -(found & 1), at + 1


def _cut() -> CodecError:
    return CodecError("it is cut off, or has an impossible length")
