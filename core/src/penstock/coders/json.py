"""JSON: an object per message, an array of them, or a line each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.coders import jsonobjects, jsonread
from penstock.coders.isolate import BAD, isolate
from penstock.coders.jsonwrite import write_rows
from penstock.coders.parts import assemble, bytes_of, lines_of, present, under, without
from penstock.coders.schema import holds, only, parse_schema
from penstock.coders.text import utf8
from penstock.contracts.coder import Coder, Decoded, Encoded, RowError
from penstock.contracts.envelope import conform
from penstock.contracts.errors import CodecError, OptionError, SchemaError
from penstock.contracts.options import connector, option

_SPACE = " \t\r\n\ufeff"
_NAMED = 100  # so many bad rows get a field name; finding it parses the row once per field


@connector
class JsonCoder(Coder):
    """JSON text: one object, an array of objects, or an object per line in each message.

    A field that is missing or null is null, one the schema does not name is skipped, and a value
    of another type than its column's is an error of that message.
    """

    _schema: Any = option(
        default=None,
        doc="Columns: Spark DDL, an Arrow schema, a class, a JSON Schema, an Avro schema.",
        example="id BIGINT, name STRING",
    )
    sample: str | None = option(
        default=None, doc="File with a JSON object per line, to infer the schema from."
    )
    layout: Literal["record", "array", "lines"] = option(
        default="record", doc="What a message holds: one object, an array of them, one per line."
    )
    only: tuple[str, ...] | None = attrs.field(default=None, kw_only=True)

    def settle(self) -> None:
        one_schema("json", self._schema, self.sample)

    def schema(self) -> pa.Schema:
        return only(_columns(self._schema, self.sample), self.only)

    def narrowed(self, columns: Sequence[str]) -> JsonCoder:
        whole: Any = self
        return attrs.evolve(whole, only=tuple(columns))  # type: ignore[no-any-return]

    def decode(self, values: pa.Array) -> Decoded:
        schema = self.schema()
        kept, rows = present(values)
        texts, errors = utf8(kept)
        valid = assemble(texts, errors, rows, pa.schema([("text", pa.string())]), len(values))
        text = valid.rows.column(0)
        if self.layout == "lines":
            lines, parents = lines_of(text)
            filled = pc.greater(pc.binary_length(_trimmed(lines)), 0)
            records = read_records(lines.filter(filled), schema)
            return under(valid, records, parents.filter(filled))
        if self.layout == "array":
            items, parents, bad = _split_arrays(text)
            return under(valid, read_records(items, schema), parents, bad)
        return under(valid, read_records(text, schema))

    def encode(self, rows: pa.RecordBatch) -> Encoded:
        rows = conform(rows, self.schema())
        around = {"record": (b"", b""), "lines": (b"", b"\n"), "array": (b"[", b"]")}
        return write_rows(rows, *around[self.layout])


def one_schema(who: str, given: Any, sample: str | None) -> None:
    """Refuse a coder that has no schema, or two."""
    if (given is None) == (sample is None):
        raise OptionError(
            f"the coder {who} needs one schema",
            expected="schema, or sample to infer it from",
            got="neither" if given is None else "both",
            fix='give schema="id BIGINT, name STRING"',
        )


@cache
def _inferred(path: str) -> pa.Schema:
    lines = [line for line in Path(path).read_bytes().splitlines() if line.strip()]
    try:
        return jsonread.infer(lines)
    except pa.ArrowInvalid as error:
        raise SchemaError(f"no schema can be inferred from {path}: {error}") from None


def _columns(given: Any, sample: str | None) -> pa.Schema:
    return parse_schema(given) if given is not None else parse_schema(_inferred(str(sample)))


def read_records(text: pa.Array, schema: pa.Schema) -> Decoded:
    """Columns of JSON objects, one per text; what is no object is an error."""
    text = _trimmed(text)
    good = _braced(text)
    broken = np.flatnonzero(~good)
    errors = [RowError(row=int(row), message="it is not one JSON object") for row in broken]
    kept = text if good.all() else text.filter(pa.array(good))
    rows = None if good.all() else pa.array(np.flatnonzero(good), pa.int32())
    attempt, explain = _reader(kept.cast(pa.binary()), schema)
    runs, found = isolate(len(kept), attempt, explain)
    done = assemble(runs, found, rows, schema, len(text))
    return without(done, errors) if errors else done


def _reader(values: pa.Array, schema: pa.Schema) -> tuple[Any, Any]:
    mapped = any(holds(field.type, pa.types.is_map) for field in schema)
    read = _read_mapped if mapped else jsonread.read_objects
    named: list[int] = []

    def attempt(start: int, stop: int) -> pa.RecordBatch:
        return read(values.slice(start, stop - start), schema)

    def explain(row: int, error: BaseException) -> str:
        if isinstance(error, CodecError) or len(named) >= _NAMED:
            return jsonread.said(error)
        named.append(row)
        for field in schema:
            try:
                read(values.slice(row, 1), pa.schema([field]))
            except BAD:
                return f"the field {field.name} holds a value that is no {field.type}"
        return jsonread.said(error)

    return attempt, explain


def _read_mapped(values: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
    exact = any(holds(field.type, pa.types.is_decimal) for field in schema)
    objects = [jsonobjects.parse(text, exact=exact) for text in values.to_pylist()]
    return jsonobjects.from_objects(objects, schema)


def _trimmed(text: pa.Array) -> pa.Array:
    return text if _braced(text).all() else pc.utf8_trim(text, _SPACE)


def _braced(text: pa.Array) -> np.ndarray:
    """Which texts begin with { and end with }."""
    data, offsets = bytes_of(text)
    starts, ends = offsets[:-1], offsets[1:]
    filled = ends > starts
    if not filled.any():
        return filled
    first = data[np.where(filled, starts, 0)]
    last = data[np.where(filled, ends - 1, 0)]
    braced: np.ndarray = filled & (first == ord("{")) & (last == ord("}")) & (ends - starts > 1)
    return braced


def _split_arrays(text: pa.Array) -> tuple[pa.Array, pa.Array, list[RowError]]:
    """The elements of arrays as texts of their own, whose array each is, and the bad arrays."""
    items: list[str] = []
    parents: list[int] = []
    errors = []
    for row, each in enumerate(text.to_pylist()):
        try:
            found = jsonobjects.elements(each.strip(_SPACE))
        except CodecError as error:
            errors.append(RowError(row=row, message=error.message))
        else:
            items += found
            parents += [row] * len(found)
    return pa.array(items, pa.string()), pa.array(parents, pa.int32()), errors
