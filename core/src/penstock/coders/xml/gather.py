"""Columns of many documents at once, from where their elements are."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from attrs import frozen

from penstock.coders.cursors import Buffer, Ints, Rows
from penstock.coders.isolate import BAD
from penstock.coders.jsonread import from_text
from penstock.coders.pieces import slices
from penstock.coders.xml.attributes import DEFAULT, NIL, Attributes, attributes
from penstock.coders.xml.columns import Leaf, List, Struct
from penstock.coders.xml.names import Names
from penstock.coders.xml.rowpath import RowPath
from penstock.coders.xml.scan import bare_names, scan
from penstock.contracts.compute import pc

_AMP, _RETURN = b"&\r"
_REFERENCES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&"))
_BLANK = " \t\r\n"
_FEW = 16
"""Texts among which one that is no value leaves them all to be read alone."""


class Layout:
    """What a schema asks of documents: names, and which column of which struct each one is."""

    def __init__(self, struct: Struct, rows: RowPath) -> None:
        self.struct = struct
        self.rows = rows
        structs = list(_structs(struct))
        children = {name for each in structs for name in each.children}
        self.elements = Names({*children, *rows.steps})
        wanted = {name for each in structs for name, _ in each.attributes} - {DEFAULT}
        self.nil_too = NIL in wanted
        # That elements have a namespace by default matters only to the names of a path.
        self.attributes = Names({*wanted, NIL, *([DEFAULT] if rows.steps else [])})
        self.depth = rows.depth + _depth(struct)

    def fits(self) -> bool:
        """Whether texts and attributes have columns of plain types, as they should."""
        for struct in _structs(self.struct):
            own = [index for _, index in struct.attributes]
            own += [] if struct.value is None else [struct.value]
            if not all(isinstance(struct.columns[index], Leaf) for index in own):
                return False
        return bool(self.struct.columns)


def _structs(column: Leaf | Struct | List) -> list[Struct]:
    if isinstance(column, List):
        return _structs(column.items)
    if isinstance(column, Leaf):
        return []
    return [column, *(each for inner in column.columns for each in _structs(inner))]


def _depth(column: Leaf | Struct | List) -> int:
    if isinstance(column, List):
        return _depth(column.items)
    if isinstance(column, Leaf):
        return 0
    return 1 + max((_depth(each) for each in column.columns), default=0)


@frozen
class Told:
    """What the bytes of documents tell.

    Attributes:
        rows: The rows of the documents that they tell all about.
        docs: Which document each row is of.
        left: The documents for which it takes a tree.
    """

    rows: pa.RecordBatch
    docs: Rows
    left: Rows


def gather(values: pa.Array, layout: Layout, schema: pa.Schema) -> Told:
    """The rows of documents, none of them null."""
    buffer = Buffer(values)
    gathering = _Gather(buffer, layout)
    owners = layout.rows.find(buffer, gathering.elements, gathering.codes, layout.elements)
    docs = gathering.elements.doc[owners]
    arrays = gathering.struct(layout.struct, owners)
    rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
    left = np.flatnonzero(buffer.left)
    keep = ~buffer.left[docs]
    return Told(rows if keep.all() else rows.filter(pa.array(keep)), docs[keep], left)


class _Gather:
    def __init__(self, buffer: Buffer, layout: Layout) -> None:
        self.buffer = buffer
        self.layout = layout
        elements = scan(buffer, layout.depth)
        elements, self.attributes, self.nil = attributes(
            buffer, elements, layout.attributes, layout.nil_too
        )
        self.elements = bare_names(buffer, elements)
        names = self.elements.name, self.elements.after
        self.codes = layout.elements.codes(buffer, *names)
        self.refers = bool((buffer.data == _AMP).any())
        self.returns = bool((buffer.data == _RETURN).any())

    def struct(self, struct: Struct, owners: Rows) -> list[pa.Array]:
        """The columns of a struct that each of these elements holds."""
        count = len(owners)
        elements = self.elements
        rank = np.full(len(elements.parent) + 1, -1)
        rank[owners] = np.arange(count)
        arrays: list[pa.Array | None] = [None] * len(struct.columns)
        inside = rank[elements.parent]
        for index, which in _by_column(
            self.codes, inside, _table(self.layout.elements, struct.children.items()), len(arrays)
        ):
            arrays[index] = self.elements_of(struct.columns[index], which, inside[which], count)
        if self.attributes is not None and struct.attributes:
            self.attributes_of(struct, self.attributes, rank, count, arrays)
        if struct.value is not None:
            leaf = struct.columns[struct.value]
            assert isinstance(leaf, Leaf)
            text = elements.text[owners], elements.stop[owners]
            arrays[struct.value] = self.leaf(leaf, *text, elements.doc[owners])
        return [
            pa.nulls(count, field.type) if array is None else array
            for array, field in zip(arrays, struct.kind, strict=True)
        ]

    def attributes_of(
        self,
        struct: Struct,
        found: Attributes,
        rank: Ints,
        count: int,
        arrays: list[pa.Array | None],
    ) -> None:
        inside = rank[found.owner]
        table = _table(self.layout.attributes, struct.attributes)
        for index, which in _by_column(found.code, inside, table, len(arrays)):
            leaf = struct.columns[index]
            assert isinstance(leaf, Leaf)
            docs = self.elements.doc[found.owner[which]]
            array = self.leaf(leaf, found.value[which], found.stop[which], docs, attribute=True)
            arrays[index] = _scattered(array, inside[which], count)

    def elements_of(
        self, column: Leaf | Struct | List, which: Rows, rows: Rows, count: int
    ) -> pa.Array:
        """A column of so many rows, from these elements in these rows."""
        if isinstance(column, List):
            return self.list(column, which, rows, count)
        again = rows[1:] == rows[:-1]
        if again.any():
            # That it comes twice is an error, which the other way of reading has the words for.
            self.buffer.left[self.elements.doc[which[1:][again]]] = True
            first = np.append(True, ~again)
            which, rows = which[first], rows[first]
        return _scattered(self.one(column, which), rows, count)

    def list(self, column: List, which: Rows, rows: Rows, count: int) -> pa.Array:
        counts = np.bincount(rows, minlength=count)
        offsets = np.zeros(count + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        none = counts == 0
        mask = pa.array(none) if none.any() else None
        items = self.one(column.items, which)
        return pa.ListArray.from_arrays(pa.array(offsets), items, type=column.kind, mask=mask)

    def one(self, column: Leaf | Struct | List, which: Rows) -> pa.Array:
        """A value for each element."""
        elements = self.elements
        nil = None if self.nil is None else self.nil[which]
        if isinstance(column, Struct):
            arrays = self.struct(column, which)
            mask = None if nil is None or not nil.any() else pa.array(nil)
            return pa.StructArray.from_arrays(arrays, fields=list(column.kind), mask=mask)
        assert isinstance(column, Leaf)
        mixed = ~elements.leaf[which]
        if mixed.any():
            self.buffer.left[elements.doc[which[mixed]]] = True
        starts, ends = elements.text[which], elements.stop[which]
        array = self.leaf(column, starts, ends, elements.doc[which])
        if nil is not None and (empty := nil & (starts == ends)).any():
            return pc.if_else(pa.array(empty), pa.scalar(None, column.kind), array)
        return array

    def leaf(
        self, leaf: Leaf, starts: Ints, ends: Ints, docs: Rows, attribute: bool = False
    ) -> pa.Array:
        """The values that the texts between each start and end say."""
        data = self.buffer.data
        texts = slices(data, starts, ends).cast(pa.string())
        if leaf.trim and ((data[starts] <= ord(" ")) | (data[ends - 1] <= ord(" "))).any():
            texts = pc.ascii_trim(texts, characters=_BLANK)
        if attribute:
            # The parser makes blanks of these.
            self.leave(pc.match_substring_regex(texts, "[\t\r\n]"), docs)
        elif self.returns:
            texts = pc.replace_substring(pc.replace_substring(texts, "\r\n", "\n"), "\r", "\n")
        if self.refers:
            for written, meant in _REFERENCES:
                texts = pc.replace_substring(texts, written, meant)
        if leaf.is_text:
            return texts
        if not leaf.may_be_empty:
            empty = pc.equal(pc.binary_length(texts), 0)
            if pc.any(empty).as_py():
                texts = pc.if_else(empty, pa.scalar(None, pa.string()), texts)
        return self.values(texts, leaf.kind, docs)

    def values(self, texts: pa.Array, kind: pa.DataType, docs: Rows) -> pa.Array:
        """Texts as values; documents with one that is none are left over."""
        try:
            return from_text(texts, kind)
        except BAD:
            bad = np.zeros(len(texts), bool)
            waiting = [(0, len(texts))]
        while waiting:
            low, high = waiting.pop()
            try:
                from_text(texts.slice(low, high - low), kind)
            except BAD:
                if high - low <= _FEW:
                    bad[low:high] = True
                else:
                    middle = (low + high) // 2
                    waiting += [(low, middle), (middle, high)]
        self.buffer.left[docs[bad]] = True
        return from_text(pc.if_else(pa.array(bad), pa.scalar(None, pa.string()), texts), kind)

    def leave(self, which: pa.Array, docs: Rows) -> None:
        if pc.any(which).as_py():
            self.buffer.left[docs[np.asarray(which)]] = True


def _table(names: Names, columns: Iterable[tuple[str, int]]) -> npt.NDArray[np.int32]:
    """The column of each name; the last, for no name, has none."""
    table = np.full(len(names.known) + 1, -1, np.int32)
    for name, index in columns:
        if name in names.number:
            table[names.number[name]] = index
    return table


def _by_column(
    codes: npt.NDArray[np.int16], inside: Rows, table: npt.NDArray[np.int32], count: int
) -> list[tuple[int, Rows]]:
    """Which of the things inside each column takes."""
    some = np.flatnonzero(inside >= 0)
    column = table[codes[some]]
    known = column >= 0
    some, column = some[known], column[known]
    order = np.argsort(column.astype(np.int16), kind="stable")
    edges = np.cumsum(np.bincount(column, minlength=count))
    parts = zip(np.append(0, edges[:-1]), edges, strict=True)
    return [(i, some[order[low:high]]) for i, (low, high) in enumerate(parts) if low < high]


def _scattered(array: pa.Array, rows: Rows, count: int) -> pa.Array:
    """The values in their rows, null in all others."""
    if len(array) == count:
        return array
    index = np.zeros(count, np.int64)
    index[rows] = np.arange(len(rows))
    missing = np.ones(count, bool)
    missing[rows] = False
    return array.take(pa.array(index, mask=missing))
