"""The attributes of many elements, told from their bytes: `name="value"`, one blank before each."""

from __future__ import annotations

import numpy as np
from attrs import evolve, frozen

from penstock.coders.cursors import Buffer, Bytes, Ints, Rows
from penstock.coders.xml.names import Codes, Names
from penstock.coders.xml.scan import BLANK, COLON, Elements, Flags, inside, stands

_QUOTE, _APOSTROPHE, _EQUALS = b"\"'="
_LONGEST = 128
_INSTANCE = b"http://www.w3.org/2001/XMLSchema-instance"

NIL = "nil"
DEFAULT = "xmlns"


@frozen
class Attributes:
    """Attributes in order.

    Attributes:
        owner: Whose it is, among the elements.
        name, after: Its name, without a prefix.
        value, stop: Its value.
        code: Its name's number, or -1.
        foreign: It has a prefix.
        declares: It declares a prefix.
    """

    owner: Rows
    name: Ints
    after: Ints
    value: Ints
    stop: Ints
    code: Codes
    foreign: Flags
    declares: Flags

    def some(self, which: Flags) -> Attributes:
        """These alone."""
        return Attributes(
            self.owner[which],
            self.name[which],
            self.after[which],
            self.value[which],
            self.stop[which],
            self.code[which],
            self.foreign[which],
            self.declares[which],
        )


def attributes(
    buffer: Buffer, elements: Elements, names: Names, nil_too: bool
) -> tuple[Elements, Attributes | None, Flags | None]:
    """The elements, whose names now end where they do; their attributes; which are `xsi:nil`.

    A document that writes them in another way than nearly all do is left over, and so is one
    that has an attribute of a known name under a prefix, or of the name `xmlns` if it is known.
    `xsi:nil` is known for what it means, unless `nil_too` says that it has a column as well.
    """
    elements, found = _written(buffer, elements, names)
    if found is None:
        return elements, None, None
    if DEFAULT in names.number:
        default = (found.code == names.number[DEFAULT]) & ~found.foreign
        _leave(buffer, elements, found.owner[default])
    known = found.some((found.code >= 0) & ~found.declares)
    means_nil = known.foreign & (known.code == names.number[NIL]) & (not nil_too)
    _leave(buffer, elements, known.owner[known.foreign & ~means_nil])
    nil = _nil(buffer, elements, found, known.some(means_nil))
    return elements, known.some(~known.foreign), nil


def _written(
    buffer: Buffer, elements: Elements, names: Names
) -> tuple[Elements, Attributes | None]:
    """What stands in the tags, and the elements with the end of their names known."""
    _, owner = inside(buffer, _APOSTROPHE, elements.start, elements.end)
    _leave(buffer, elements, owner)
    quotes, owner = inside(buffer, _QUOTE, elements.start, elements.end)
    uneven = np.bincount(owner, minlength=len(elements.start)) % 2 == 1
    if uneven.any():
        _leave(buffer, elements, np.flatnonzero(uneven))
        kept = ~uneven[owner]
        quotes, owner = quotes[kept], owner[kept]
    if not len(quotes):
        return elements, None
    opening, closing, owner = quotes[0::2], quotes[1::2], owner[0::2]
    first = np.append(True, owner[1:] != owner[:-1])
    last = np.append(first[1:], True)
    holders = owner[first]
    ends, endless = _name_ends(buffer.data, elements.start[holders], opening[first])
    _leave(buffer, elements, holders[endless])
    before = np.append(0, closing[:-1] + 1)
    before[first] = ends
    data, name, equals = buffer.data, before + 1, opening - 1
    wrong = ~BLANK[data[before]] | BLANK[data[name]] | (data[equals] != _EQUALS)
    wrong |= BLANK[data[equals - 1]] | (name >= equals)
    wrong[last] |= closing[last] + 1 != elements.tail[owner[last]]
    _leave(buffer, elements, owner[wrong])
    after = elements.after.copy()
    after[holders] = ends
    local, foreign = _bare(buffer, name, equals)
    declares = foreign & stands(buffer, name, b"xmlns:")
    code = names.codes(buffer, local, equals)
    found = Attributes(owner, local, equals, opening + 1, closing, code, foreign, declares)
    return evolve(elements, after=after), found


def _nil(buffer: Buffer, elements: Elements, found: Attributes, nil: Attributes) -> Flags | None:
    """Which elements say that they are null, by the prefix that all use for it."""
    if not len(nil.owner):
        return None
    usual = stands(buffer, nil.name - 4, b"xsi:")
    _leave(buffer, elements, nil.owner[~usual])
    spaces = found.some(found.declares & (found.after - found.name == 3))
    spaces = spaces.some(stands(buffer, spaces.name, b"xsi"))
    _leave(buffer, elements, spaces.owner[~_is(buffer, spaces, _INSTANCE)])
    flags = np.zeros(len(elements.start), bool)
    flags[nil.owner[_is(buffer, nil, b"true") | _is(buffer, nil, b"1")]] = True
    return flags


def _leave(buffer: Buffer, elements: Elements, which: Rows) -> None:
    buffer.left[elements.doc[which]] = True


def _name_ends(data: Bytes, starts: Ints, stops: Ints) -> tuple[Ints, Rows]:
    """The first blank in each tag, and the tags in which it is too far to look for."""
    at = starts + 2
    live = np.arange(len(at))
    for _ in range(_LONGEST):
        live = live[~BLANK[data[at[live]]]]
        if not len(live):
            break
        at[live] += 1
    return np.minimum(at, stops), live


def _bare(buffer: Buffer, name: Ints, end: Ints) -> tuple[Ints, Flags]:
    """Names without their prefixes, and which have one."""
    colons, owner = inside(buffer, COLON, name, end)
    local, foreign = name.copy(), np.zeros(len(name), bool)
    local[owner] = colons + 1
    foreign[owner] = True
    return local, foreign


def _is(buffer: Buffer, found: Attributes, text: bytes) -> Flags:
    """Whether a value is this text."""
    same: Flags = found.stop - found.value == len(text)
    where = found.value[same][:, None] + np.arange(len(text))
    same[same] = (buffer.data[where] == np.frombuffer(text, np.uint8)).all(axis=1)
    return same
