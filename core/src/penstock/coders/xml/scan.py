"""Where the elements of many documents are, told from their bytes.

In a well-formed document without comments, sections and the like `<` stands only where a tag
begins. If `<` and `>` take turns as well, tags are what is between them, depth is a running sum,
and parents follow from depth. A document of which this cannot be said is `left` to the parser's
tree; whether the others are well-formed is libxml2's to say, never ours.
"""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen

from penstock.coders.cursors import Buffer, Ints, Rows
from penstock.coders.xml.trees import sound

_DECLARED = re.compile(
    rb"""<\?xml version=(["'])1\.0\1(?: encoding=(["'])(?:UTF|utf)-8\2)?"""
    rb"""(?: standalone=(["'])(?:yes|no)\3)? ?\?>"""
)
_LONGEST = 100
_FORMS = 6
"""How many ways of writing the declaration are looked for."""
_LT, _GT, _SLASH, _AMP, _QUESTION, _BANG = b"<>/&?!"
COLON = ord(":")
_REFERENCES = (b"&lt;", b"&gt;", b"&amp;", b"&quot;", b"&apos;")
_ROUNDS = 4
"""How many white space characters may stand before and behind a document."""
_TOGETHER = 64
_FEW = 4
"""Documents that are parsed as one, and so few that one bad one sends them all to be parsed alone."""

BLANK = np.zeros(256, bool)
BLANK[list(b" \t\r\n")] = True

Flags = npt.NDArray[np.bool_]


@frozen
class Elements:
    """Start tags, in order.

    Attributes:
        doc: Which document it is in.
        level: How deep it is; a root's is one.
        parent: Which element it is in; for a root one past the last.
        start, end: The tag's `<` and `>`.
        name, after: Its name, without a prefix.
        tail: Where the tag's name or last attribute ends.
        text, stop: Its text up to the first tag within, or its end.
        leaf: No element is within.
    """

    doc: Rows
    level: npt.NDArray[np.int32]
    parent: Rows
    start: Ints
    end: Ints
    name: Ints
    after: Ints
    tail: Ints
    text: Ints
    stop: Ints
    leaf: Flags


@frozen
class _Tags:
    """All tags of some documents, in order, and how many each document has."""

    docs: Rows
    counts: Ints
    start: Ints
    end: Ints
    closing: Flags
    alone: Flags
    depth: npt.NDArray[np.int32]

    def of(self, keep: Flags) -> _Tags:
        """Those of the documents to keep alone."""
        tags = np.repeat(keep, self.counts)
        return _Tags(
            self.docs[keep],
            self.counts[keep],
            self.start[tags],
            self.end[tags],
            self.closing[tags],
            self.alone[tags],
            self.depth[tags],
        )


def scan(buffer: Buffer, depth: int) -> Elements:
    """The elements down to a depth (the root's is one) of the documents that are not left over."""
    starts, ends = _bare(buffer)
    _references(buffer)
    tags = _tags(buffer, starts, ends)
    _parse(buffer, tags.docs)
    keep = ~buffer.left[tags.docs]
    return _elements(buffer, tags if keep.all() else tags.of(keep), depth)


def _bare(buffer: Buffer) -> tuple[Ints, Ints]:
    """Where documents begin and end without white space, and a declaration of what is so anyway."""
    data, starts, ends = buffer.data, buffer.starts.copy(), buffer.ends.copy()
    declared = np.flatnonzero(data[starts + 1] == _QUESTION)
    for _ in range(_FORMS):
        if not len(declared):
            break
        first = starts[declared[0]]
        found = _DECLARED.match(data[first : first + _LONGEST].tobytes())
        if found is None:
            declared = declared[1:]
            continue
        form = np.frombuffer(found[0], np.uint8)
        whole = ends[declared] - starts[declared] >= len(form)
        where = starts[declared][:, None] + np.arange(len(form))
        same = whole & (data[np.minimum(where, len(data) - 1)] == form).all(axis=1)
        data[where[same]] = ord(" ")
        starts[declared[same]] += len(form)
        declared = declared[1:][~same[1:]]
    for _ in range(_ROUNDS):
        before, behind = BLANK[data[starts]], BLANK[data[ends - 1]]
        starts += before
        ends -= behind
        if not before.any() and not behind.any():
            break
    return starts, ends


def _references(buffer: Buffer) -> None:
    """Leave documents over that refer to more than the five characters XML has names for."""
    at = np.flatnonzero(buffer.data == _AMP)
    if not len(at):
        return
    known = np.zeros(len(at), bool)
    for each in _REFERENCES:
        known |= stands(buffer, at, each)
    buffer.left[np.searchsorted(buffer.ends, at[~known], "right")] = True


def _tags(buffer: Buffer, starts: Ints, ends: Ints) -> _Tags:
    data = buffer.data
    start, end = np.flatnonzero(data == _LT), np.flatnonzero(data == _GT)
    edges = np.append(buffer.starts, buffer.ends[-1:])
    counts, others = (np.diff(np.searchsorted(each, edges)) for each in (start, end))
    buffer.left |= (counts != others) | (counts == 0)
    good = ~buffer.left
    if not good.all():
        start, end = start[np.repeat(good, counts)], end[np.repeat(good, others)]
        counts = counts[good]
    docs = np.flatnonzero(good)
    first = np.cumsum(counts) - counts
    last = first + counts - 1
    mark = data[start + 1]
    closing = mark == _SLASH
    alone = (data[end - 1] == _SLASH) & ~closing
    delta = (1 - 2 * closing.astype(np.int8)) - alone
    depth = np.cumsum(delta, dtype=np.int32)
    base = depth[first] - delta[first]
    if base.any():
        depth -= np.repeat(base, counts)
    wrong = (start >= end) | (mark == _BANG) | (mark == _QUESTION)
    wrong[:-1] |= end[:-1] > start[1:]
    outside = depth <= 0
    outside[last] = depth[last] != 0
    wrong |= outside
    wrong[first] |= start[first] != starts[docs]
    wrong[last] |= end[last] + 1 != ends[docs]
    tags = _Tags(docs, counts, start, end, closing, alone, depth)
    if not wrong.any():
        return tags
    bad = np.logical_or.reduceat(wrong, first)
    buffer.left[docs[bad]] = True
    return tags.of(~bad)


def _parse(buffer: Buffer, docs: Rows) -> None:
    """Leave documents over that are not well-formed.

    Each document is known to be one element as far as its tags go: none can reach into another.
    """
    waiting = [docs[at : at + _TOGETHER] for at in range(0, len(docs), _TOGETHER)]
    while waiting:
        some = waiting.pop()
        if sound(_joined(buffer, some)):
            continue
        if len(some) <= _FEW:
            buffer.left[some] = True
        else:
            middle = len(some) // 2
            waiting += [some[:middle], some[middle:]]


def _joined(buffer: Buffer, docs: Rows) -> bytes:
    data, starts, ends = buffer.data, buffer.starts[docs], buffer.ends[docs]
    if (starts[1:] == ends[:-1]).all():
        return data[starts[0] : ends[-1]].tobytes()
    return b"".join(data[a:b].tobytes() for a, b in zip(starts, ends, strict=True))


def _elements(buffer: Buffer, tags: _Tags, depth: int) -> Elements:
    data = buffer.data
    which = np.flatnonzero(~tags.closing)
    level = tags.depth[which] + tags.alone[which]
    if (level > depth).any():
        which, level = which[level <= depth], level[level <= depth]
    start, end, alone = tags.start[which], tags.end[which], tags.alone[which]
    tail = end - alone
    tail -= BLANK[data[tail - 1]]
    text = end + 1
    found = Elements(
        doc=np.repeat(tags.docs, tags.counts)[which],
        level=level,
        parent=_parents(level),
        start=start,
        end=end,
        name=start + 1,
        after=tail,
        tail=tail,
        text=text,
        stop=np.where(alone, text, np.append(tags.start, 0)[which + 1]),
        leaf=alone | np.append(tags.closing, True)[which + 1],
    )
    blank = BLANK[data[tail - 1]]
    if blank.any():
        buffer.left[found.doc[blank]] = True
    return found


def _parents(level: npt.NDArray[np.int32]) -> Rows:
    """The element each is in: the last before it that is one level up."""
    order = np.argsort(level.astype(np.int16), kind="stable")
    edges = np.cumsum(np.bincount(level))
    parent = np.full(len(level), len(level))
    above = order[: edges[1]] if len(edges) > 1 else order
    for low, high in pairwise(edges[1:]):
        here = order[low:high]
        parent[here] = above[np.searchsorted(above, here) - 1]
        above = here
    return parent


def bare_names(buffer: Buffer, elements: Elements) -> Elements:
    """The elements, their names without prefixes."""
    colons, owner = inside(buffer, COLON, elements.start, elements.after)
    if not len(colons):
        return elements
    name = elements.name.copy()
    name[owner] = colons + 1
    return evolve(elements, name=name)


def inside(buffer: Buffer, mark: int, starts: Ints, ends: Ints) -> tuple[Ints, Rows]:
    """Where a mark stands within spans that are in order and apart, and in which."""
    at = np.flatnonzero(buffer.data == mark)
    owner = np.searchsorted(starts, at, "right") - 1
    within = owner >= 0
    within[within] = at[within] < ends[owner[within]]
    return at[within], owner[within]


def stands(buffer: Buffer, at: Ints, text: bytes) -> Flags:
    """Whether a text of at most eight bytes stands at each place."""
    mask = np.uint64(2 ** (8 * len(text)) - 1)
    found: Flags = (buffer.words[at] & mask) == np.uint64(int.from_bytes(text, "little"))
    return found
