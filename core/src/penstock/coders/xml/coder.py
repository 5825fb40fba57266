"""The XML coder: rows by XPath, columns by name or by XPath."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
from lxml import etree

from penstock.coders.groups import encoded, merged
from penstock.coders.isolate import isolate
from penstock.coders.json import one_schema, sample_bytes
from penstock.coders.parts import empty, present, spans, under
from penstock.coders.schema import only, parse_schema
from penstock.coders.xml.columns import VALUE, Paths, Struct
from penstock.coders.xml.gather import Layout, gather
from penstock.coders.xml.rowpath import row_path
from penstock.coders.xml.sample import columns as sample_columns
from penstock.coders.xml.trees import check_xpath, parse, parse_all, plain, xpath
from penstock.coders.xml.write import write_rows
from penstock.contracts.coder import Coder, Decoded, Encoded, ObjectCoder, RowError
from penstock.contracts.errors import CodecError, OptionError, SchemaError
from penstock.contracts.options import connector, option
from penstock.contracts.transform import Objects, Transform, Type

NODE = "xml-node"
AT_ONCE = 8192, 2**21
"""Documents, and their bytes, that are read at once."""
LARGEST = 2**22
"""A larger document is read by its tree: where its tags are may take 35 times its size."""
TOGETHER = 256
"""Documents parsed as one tree; a bad one among them sends so many to be parsed alone."""


def _is_name(text: str) -> str | None:
    try:
        plain = etree.QName(text).localname == text
    except ValueError:
        plain = False
    return None if plain else "must be an XML name"


def _check_names(fields: Iterable[pa.Field], where: str = "") -> None:
    for field in fields:
        name = field.name.removeprefix("_")
        if field.name != VALUE and _is_name(name):
            raise SchemaError(
                f"the column {where}{field.name} cannot be an XML element or attribute",
                expected="an XML name, with _ before that of an attribute",
                got=repr(field.name),
                fix="rename the column, or give the XPath it is read by in paths",
            )
        kind = field.type.value_type if pa.types.is_list(field.type) else field.type
        if pa.types.is_struct(kind):
            _check_names(kind, f"{where}{field.name}.")


@connector
class XmlCoder(Coder):
    """XML documents: a row for the root, or for each element an XPath finds.

    A column takes the child element of its name, whatever its namespace; `_name` is the attribute
    `name`, `_VALUE` the element's own text; a struct is an element with children, an array an
    element that repeats. Document types and entities are refused.
    """

    _schema: Any = option(
        default=None,
        doc="Columns: Spark DDL, an Arrow schema, a class, ...",
        example="_id BIGINT, name STRING, line ARRAY<STRUCT<sku: STRING, qty: INT>>",
    )
    sample: str | None = option(
        default=None, doc="XML file to infer the schema from, its rows found by `row`."
    )
    row: str = option(
        default=".",
        doc="XPath of the elements that are rows; the root by default.",
        check=check_xpath,
        example="//order",
    )
    paths: dict[str, str] = option(
        factory=dict,
        doc="XPath of a column relative to its row, for columns that do not go by name.",
        example="{'total': 'summary/o:total/@amount'}",
    )
    namespaces: dict[str, str] = option(
        factory=dict, doc="Prefixes used in XPaths.", example="{'o': 'urn:orders'}"
    )
    trim: bool = option(default=True, doc="Cut white space around texts.")
    element: str = option(
        default="row", doc="Name of the root element when writing.", check=_is_name
    )
    only: tuple[str, ...] | None = attrs.field(default=None, kw_only=True)

    def settle(self) -> None:
        one_schema("xml", self._schema, self.sample)
        xpath(self.row, self.namespaces)
        for path in self.paths.values():
            xpath(path, self.namespaces)

    def schema(self) -> pa.Schema:
        whole = parse_schema(self._schema) if self.inferred is None else self.inferred
        for name in self.paths:
            if name not in whole.names:
                raise OptionError(
                    f"paths names the column {name}, which the schema lacks",
                    expected=", ".join(whole.names),
                )
        _check_names(field for field in whole if field.name not in self.paths)
        kept = only(whole, self.only)
        Struct(pa.struct(list(kept)), self.trim, "")
        return kept

    @cached_property
    def inferred(self) -> pa.Schema | None:
        """The sample's schema. Pickled: a worker need not have the file."""
        if self.sample is None:
            return None
        try:
            root = parse(sample_bytes(self.sample))
            return sample_columns(_elements(xpath(self.row, self.namespaces), root))
        except CodecError as error:
            raise SchemaError(
                f"no schema can be inferred from {self.sample}: {error.message}"
            ) from None

    def narrowed(self, columns: Sequence[str]) -> XmlCoder:
        whole: Any = self
        made: XmlCoder = attrs.evolve(whole, only=tuple(columns))
        made.__dict__["inferred"] = self.inferred
        return made

    def decode(self, values: pa.Array) -> Decoded:
        kept, rows = present(values)
        outer = Decoded(pa.RecordBatch.from_arrays([kept], names=["value"]), rows)
        schema = self.schema()
        path = None if self.paths else row_path(self.row)
        if path is None or not len(kept):
            return under(outer, self._by_tree(kept, schema))
        layout = Layout(Struct(pa.struct(list(schema)), self.trim, ""), path)
        if not layout.fits():
            return under(outer, self._by_tree(kept, schema))
        parts = []
        for start, stop in spans(kept, *AT_ONCE):
            part = kept.slice(start, stop - start)
            parts.append((np.arange(start, stop), self._by_bytes(part, layout, schema)))
        return under(outer, merged(parts, schema, len(kept), ()))

    def _by_bytes(self, values: pa.Array, layout: Layout, schema: pa.Schema) -> Decoded:
        """Documents as their bytes tell, and by their trees those that these do not tell all of."""
        if values.nbytes > LARGEST:
            return self._by_tree(values, schema)
        told = gather(values, layout, schema)
        count = len(values)
        if len(told.docs) == count and (told.docs == np.arange(count)).all():
            return Decoded(told.rows)
        parts = [(np.arange(count), Decoded(told.rows, pa.array(told.docs, pa.int32())))]
        if len(told.left):
            inner = self._by_tree(values.take(pa.array(told.left)), schema)
            parts.append((told.left, inner))
        return merged(parts, schema, count, ())

    def _by_tree(self, kept: pa.Array, schema: pa.Schema) -> Decoded:
        """Documents as a tree each, element by element."""
        # An XPath may climb to the document, which then must be the row's own.
        apart = self.row != "." or bool(self.paths)
        roots, errors = _roots(kept) if apart else _roots_together(kept)
        good = [row for row, root in enumerate(roots) if root is not None]
        gather = _Gather(self, schema)
        runs, bad = isolate(
            len(good), lambda a, b: gather([(row, roots[row]) for row in good[a:b]])
        )
        errors += [attrs.evolve(error, row=good[error.row]) for error in bad]
        parents = [parent for _, found in runs for parent in found]
        batches = [batch for batch, _ in runs if batch.num_rows]
        whole = pa.Table.from_batches(batches, schema=schema).combine_chunks().to_batches()
        inner = Decoded(whole[0] if whole else empty(schema))
        simple = not errors and parents == list(range(len(kept)))
        if simple:
            return inner
        outer = Decoded(pa.RecordBatch.from_arrays([kept], names=["value"]))
        return under(outer, inner, pa.array(parents, pa.int32()), errors)

    def encode(self, rows: pa.RecordBatch) -> Encoded:
        schema = self.schema()
        _check_names(schema)
        return encoded(rows, schema, lambda whole: write_rows(whole, self.element))


def _roots(values: pa.Array) -> tuple[list[Any], list[RowError]]:
    roots: list[Any] = []
    errors = []
    for row, value in enumerate(values.to_pylist()):
        try:
            roots.append(None if value is None else parse(value))
        except CodecError as error:
            roots.append(None)
            errors.append(RowError(row=row, message=error.message))
    return roots, errors


def _roots_together(values: pa.Array) -> tuple[list[Any], list[RowError]]:
    roots: list[Any] = []
    errors: list[RowError] = []
    for start in range(0, len(values), TOGETHER):
        part = values.slice(start, TOGETHER)
        found = parse_all(part.to_pylist()) if plain(part) else None
        if found is None:
            found, bad = _roots(part)
            errors += [attrs.evolve(error, row=start + error.row) for error in bad]
        roots += found
    return roots, errors


class _Gather:
    """Columns of the rows in some documents, and which document each row is from."""

    def __init__(self, coder: XmlCoder, schema: pa.Schema) -> None:
        self.schema = schema
        self.root_only = coder.row == "."
        self.row = xpath(coder.row, coder.namespaces)
        named = [f for f in schema if f.name not in coder.paths]
        found = [f for f in schema if f.name in coder.paths]
        self.named = Struct(pa.struct(named), coder.trim, "")
        self.found = Struct(pa.struct(found), coder.trim, "")
        compiled = {f.name: xpath(coder.paths[f.name], coder.namespaces) for f in found}
        self.paths = Paths(compiled, self.found)

    def __call__(self, roots: list[tuple[int, Any]]) -> tuple[pa.RecordBatch, list[int]]:
        self.named.clear()
        self.found.clear()
        parents = []
        for number, root in roots:
            for element in (root,) if self.root_only else _elements(self.row, root):
                self.named.fill(element)
                self.paths.add(element)
                parents.append(number)
        arrays = {
            field.name: each.array()
            for struct in (self.named, self.found)
            for field, each in zip(struct.kind, struct.columns, strict=True)
        }
        columns = [arrays[name] for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema), parents


def _elements(find: Any, root: Any) -> list[Any]:
    found = find(root)
    if not isinstance(found, list) or not all(etree.iselement(each) for each in found):
        raise CodecError("the XPath of row finds something that is no element")
    return found


@connector
class XmlNodeCoder(ObjectCoder):
    """XML documents as parsed trees, for steps that look at them one by one."""

    type = NODE

    def parse(self, values: pa.Array) -> tuple[list[object], tuple[RowError, ...]]:
        roots, errors = _roots(values)
        return roots, tuple(errors)

    def render(self, objects: list[object]) -> Encoded:
        texts = [None if each is None else etree.tostring(each) for each in objects]
        return Encoded(pa.array(texts, pa.binary()))


@connector
class XmlFilter(Transform):
    """Keep the documents for which an XPath is true, or finds something."""

    grain = "objects"

    where: str = option(
        doc="XPath 1.0 over the document.", check=check_xpath, example="//order[total > 100]"
    )
    namespaces: dict[str, str] = option(factory=dict, doc="Prefixes used in the XPath.")

    def settle(self) -> None:
        xpath(self.where, self.namespaces)

    def wants(self) -> Type:
        return Objects(NODE)

    def apply(self, data: Any) -> Any:
        holds = xpath(self.where, self.namespaces)
        return [each if each is not None and holds(each) else None for each in data]
