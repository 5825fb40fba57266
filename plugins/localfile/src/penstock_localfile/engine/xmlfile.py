"""XML files: an element per row between the tags of a root."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from attrs import frozen

from penstock.contracts.coder import RowError
from penstock.contracts.errors import CodecError, SchemaError
from penstock_localfile.engine.encodings import BytesSheet, Encoding, Sheet, is_bytes_like, joined
from penstock_localfile.engine.formats.xml import lxml


@frozen
class XmlEncoding(Encoding):
    """Elements as they are in `value`, or one made of each row's columns.

    Attributes:
        root: The name of the element around all of them.
        element: The name of an element that is made of columns.
    """

    root: str = "rows"
    element: str = "row"
    suffix = ".xml"

    def accepts(self, schema: pa.Schema) -> pa.Schema:
        """The column `value` if it holds bytes; else all columns, whose names are XML names."""
        etree = lxml()
        at = schema.get_field_index("value")
        if at >= 0 and pa.types.is_binary(schema.field(at).type):
            return pa.schema([schema.field(at)])
        own = super().accepts(schema)
        for name in own.names:
            try:
                etree.QName(name.removeprefix("_"))
            except ValueError:
                raise SchemaError(
                    f"the column {name} cannot be the name of an XML element",
                    fix="rename it, or choose another format",
                ) from None
        return own

    def open(self, out: Any, schema: pa.Schema) -> Sheet:
        """Begin with the root's tag."""
        as_they_are = schema.names == ["value"] and is_bytes_like(schema.field(0).type)
        encode = _elements if as_they_are else self._rows
        return _XmlSheet(out, encode, self.root)

    def _rows(self, rows: pa.RecordBatch) -> tuple[bytes, Sequence[RowError]]:
        from penstock.coders.xml.write import write_rows

        done = write_rows(rows, self.element)
        return joined(done.values.drop_null() if done.errors else done.values), done.errors


class _XmlSheet(BytesSheet):
    def __init__(self, out: Any, encode: Any, root: str) -> None:
        super().__init__(
            out, encode, f'<?xml version="1.0" encoding="UTF-8"?>\n<{root}>\n'.encode()
        )
        self._root = root

    def close(self) -> None:
        self._out.write(f"</{self._root}>\n".encode())


def _elements(rows: pa.RecordBatch) -> tuple[bytes, Sequence[RowError]]:
    """Each value parsed and written again: what is no single element is refused."""
    from penstock.coders.xml.trees import parse

    etree = lxml()
    good, bad = [], []
    for at, value in enumerate(rows.column(0).cast(pa.binary()).to_pylist()):
        try:
            if value is None:
                raise CodecError("null cannot be an element")
            good.append(etree.tostring(parse(value), encoding="utf-8"))
        except CodecError as error:
            bad.append(RowError(at, error.message))
    return joined(pa.array(good, pa.binary())), bad
