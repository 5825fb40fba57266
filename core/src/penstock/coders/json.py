"""JSON: an object per message, an array of them, or a line each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Literal

import attrs
import numpy as np
import pyarrow as pa

from penstock.coders import jsonobjects, jsonread
from penstock.coders.framing import HEADER, registry_ids
from penstock.coders.groups import encoded, grouped, refused
from penstock.coders.isolate import BAD, isolate
from penstock.coders.jsonschema import json_schema, rendered
from penstock.coders.jsonwrite import write_rows
from penstock.coders.parts import assemble, bytes_of, lines_of, present, under, without
from penstock.coders.pieces import slices
from penstock.coders.registry import (
    Asking,
    Registry,
    RegistryError,
    Strategy,
    Written,
    hidden,
    schema_error,
    subject_name,
)
from penstock.coders.schema import holds, is_avro, only, parse_schema
from penstock.coders.text import is_utf8, utf8
from penstock.contracts.coder import Coder, Decoded, Encoded, RowError
from penstock.contracts.compute import pc
from penstock.contracts.errors import CodecError, OptionError, SchemaError
from penstock.contracts.options import connector, option
from penstock.contracts.secret import Secret

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
    framing: Literal["none", "registry"] = option(
        default="none", doc="What stands before the text: nothing, or a registry's schema id."
    )
    registry: dict[str, str | Secret] = option(
        prefix="registry.", doc="The registry's client: registry.url, ..."
    )
    subject: str | None = option(
        default=None, doc="The registry's subject; its JSON Schema is the schema, if not given."
    )
    version: int | None = option(
        default=None, doc="The subject's version; the latest if not given."
    )
    topic: str | None = option(default=None, doc="Names the subject, by the strategy.")
    strategy: Strategy = option(
        default="topic", doc="How topic and the JSON Schema's title name the subject."
    )
    register: bool = option(
        default=False, doc="Register the JSON Schema if the subject does not have it yet."
    )
    only: tuple[str, ...] | None = attrs.field(default=None, kw_only=True)

    def settle(self) -> None:
        object.__setattr__(self, "registry", hidden(self.registry))
        if self.framing == "registry":
            Registry(self.registry)
            if self._schema is not None and self.sample is None:
                return
            if self.subject is None and self.topic is None:
                raise OptionError("the coder json needs schema, subject or topic")
        else:
            one_schema("json", self._schema, self.sample)

    @cached_property
    def found(self) -> tuple[int, Written] | None:
        """The registry's schema where none was given. Pickled, so that all processes agree."""
        if self._schema is not None or self.sample is not None:
            return None
        try:
            return Registry(self.registry).by_version(self._subject(None), self.version)
        except RegistryError as error:
            raise schema_error(error) from None

    def _subject(self, title: str | None) -> str:
        return self.subject or subject_name(self.strategy, self.topic, title)

    def schema(self) -> pa.Schema:
        return only(self._whole(), self.only)

    def _whole(self) -> pa.Schema:
        if self.found is not None:
            return _registered(self.found[1])
        return parse_schema(self._schema) if self.inferred is None else self.inferred

    @cached_property
    def inferred(self) -> pa.Schema | None:
        """The sample's schema. Pickled: a worker need not have the file."""
        return None if self.sample is None else parse_schema(_inferred(self.sample))

    def narrowed(self, columns: Sequence[str]) -> JsonCoder:
        whole: Any = self
        made: JsonCoder = attrs.evolve(whole, only=tuple(columns))
        made.__dict__.update(found=self.found, inferred=self.inferred)
        return made

    def decode(self, values: pa.Array) -> Decoded:
        if self.framing == "none":
            return self._texts(values)
        kept, rows = present(values)
        outer = Decoded(pa.RecordBatch.from_arrays([kept], names=["value"]), rows)
        groups, errors = registry_ids(kept)
        one = partial(self._framed, Asking(Registry(self.registry)))
        return under(outer, grouped(kept, groups, self.schema(), one, errors))

    def _framed(self, asking: Asking, number: int, values: pa.Array) -> Decoded:
        try:
            asking.by_id(number)
        except RegistryError as error:
            return refused(self.schema(), len(values), error)
        data, offsets = bytes_of(values)
        return self._texts(slices(data, offsets[:-1] + HEADER, offsets[1:]))

    def _texts(self, values: pa.Array) -> Decoded:
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

    def lines(self, text: bytes, ends: np.ndarray) -> pa.RecordBatch:
        """The objects of whole lines (each ends before one of `ends`), at once: row i is line i.

        Faster than `decode`, which sees every record apart and is to be asked when this fails.

        Raises:
            CodecError, pa.ArrowInvalid: some line is not one good object.
        """
        schema, data = self.schema(), np.frombuffer(text, np.uint8)
        mapped = any(holds(field.type, pa.types.is_map) for field in schema)
        braced = data[0] == ord("{") and (data[ends[:-1]] == ord("{")).all()
        if mapped or not braced or not (data[ends - 2] == ord("}")).all() or not is_utf8(text):
            raise CodecError("the lines are to be seen one by one")
        return jsonread.read_text(pa.py_buffer(text), schema, len(ends))

    def encode(self, rows: pa.RecordBatch) -> Encoded:
        return encoded(rows, self.schema(), self._written)

    def _written(self, rows: pa.RecordBatch) -> Encoded:
        opening, closing = {"record": (b"", b""), "lines": (b"", b"\n"), "array": (b"[", b"]")}[
            self.layout
        ]
        if self.framing == "none":
            return write_rows(rows, opening, closing)
        try:
            number = self.found[0] if self.found is not None else self._own_id()
        except RegistryError as error:
            nothing = pa.nulls(rows.num_rows, pa.binary())
            return Encoded(nothing, refused(rows.schema, rows.num_rows, error).errors)
        return write_rows(rows, b"\x00" + number.to_bytes(4, "big") + opening, closing)

    def _own_id(self) -> int:
        registry = Registry(self.registry)
        ask = registry.register if self.register else registry.find
        text, title = _document(self._schema, self._whole())
        return ask(self._subject(title), Written("JSON", text))


def one_schema(who: str, given: Any, sample: str | None) -> None:
    """Refuse a coder that has no schema, or two."""
    if (given is None) == (sample is None):
        raise OptionError(
            f"the coder {who} needs one schema",
            expected="schema, or sample to infer it from",
            got="neither" if given is None else "both",
            fix='give schema="id BIGINT, name STRING"',
        )


def sample_bytes(path: str) -> bytes:
    """A sample's bytes.

    Raises:
        OptionError: there is no such file to read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise OptionError(
            f"the sample cannot be read: {error.strerror}",
            expected="a file on the machine that declares the pipeline",
            got=path,
        ) from None


def _inferred(path: str) -> pa.Schema:
    lines = [line for line in sample_bytes(path).splitlines() if line.strip()]
    try:
        return jsonread.infer(lines)
    except pa.ArrowInvalid as error:
        raise SchemaError(f"no schema can be inferred from {path}: {error}") from None


@cache
def _registered(written: Written) -> pa.Schema:
    if written.kind != "JSON":
        raise SchemaError(
            "the registry's schema is of another kind", expected="JSON", got=written.kind
        )
    try:
        root = json.loads(written.text)
        others = {name: json.loads(text) for name, text in written.references}
    except ValueError as error:
        raise SchemaError(f"the registry's JSON Schema is no JSON: {error}") from None
    return json_schema(root, others)


def _document(given: Any, schema: pa.Schema) -> tuple[str, str | None]:
    """The JSON Schema to write under, as it was given or else made from the columns; its title."""
    spec = given
    if isinstance(given, str) and given.strip().startswith("{"):
        spec = json.loads(given)
    if not isinstance(spec, Mapping) or is_avro(spec):
        return json.dumps(rendered(schema)), None
    title = spec.get("title")
    return given if isinstance(given, str) else json.dumps(spec), title


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
