"""The Avro coder: framing around the vectorised reader and writer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Literal

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.coders.avro import container, framing, types
from penstock.coders.avro.decode import Decoding
from penstock.coders.avro.encode import encode, record_of
from penstock.coders.avro.resolve import Plan, resolve
from penstock.coders.framing import HEADER, registry_ids
from penstock.coders.groups import encoded, grouped, merged, refused
from penstock.coders.parts import empty, present, spans, under
from penstock.coders.pieces import joined
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
from penstock.coders.schema import parse_schema
from penstock.coders.writing import signed_varints
from penstock.contracts.coder import Coder, Decoded, Encoded, RowError
from penstock.contracts.errors import CodecError, OptionError, SchemaError
from penstock.contracts.options import at_least, connector, option
from penstock.contracts.secret import Secret

AT_ONCE = 16_384
"""Rows decoded together: enough to pay for the steps, few enough to stay in the cache."""


@connector
class AvroCoder(Coder):
    """Avro records: alone, as single objects, behind a registry's schema id, or in files.

    Records written with another schema than `schema` are resolved to it by Avro's rules.
    """

    _schema: Any = option(
        default=None,
        doc="The schema to read and write with: Avro JSON, or columns as for any coder. With a "
        "registry the subject's latest, if not given.",
    )
    writer: Any = option(
        default=None,
        doc="The schema the records were written with, or a list of them for single objects; "
        "the same as schema if not given.",
    )
    framing: Literal["none", "single-object", "registry", "container"] = option(
        default="none", doc="What stands around a record."
    )
    registry: dict[str, str | Secret] = option(
        prefix="registry.",
        doc="The registry's client: registry.url, registry.basic.auth.user.info, "
        "registry.bearer.auth.token, registry.ssl.ca.location, ...",
    )
    subject: str | None = option(default=None, doc="The registry's subject.")
    version: int | None = option(
        default=None, doc="The subject's version to read with; the latest if not given."
    )
    topic: str | None = option(default=None, doc="Names the subject, by the strategy.")
    strategy: Strategy = option(default="topic", doc="How topic and record name the subject.")
    register: bool = option(
        default=False, doc="Register the schema if the subject does not have it yet."
    )
    max_size: int = option(
        default=64 * 2**20,
        doc="What a compressed container file may grow to.",
        unit="bytes",
        check=at_least(1),
    )
    only: tuple[str, ...] | None = attrs.field(default=None, kw_only=True)

    def settle(self) -> None:
        object.__setattr__(self, "registry", hidden(self.registry))
        if self.framing == "registry":
            Registry(self.registry)
            if self._schema is None and self.subject is None and self.topic is None:
                raise OptionError(
                    "the coder avro does not know its schema",
                    expected="schema, or subject or topic to ask the registry for",
                )
            if self.writer is not None:
                raise OptionError("the registry names the writer's schema; drop writer")
        elif self._schema is None:
            raise OptionError(
                "the option schema is missing",
                expected="an Avro schema, or framing=registry",
                fix='give schema=\'{"type": "record", ...}\'',
            )
        elif self.registry:
            raise OptionError("registry settings have a meaning only with framing=registry")

    @cached_property
    def found(self) -> tuple[int, Written] | None:
        """The registry's schema where none was given. Pickled, so that all processes agree."""
        if self._schema is not None:
            return None
        try:
            return Registry(self.registry).by_version(self._subject(None), self.version)
        except RegistryError as error:
            raise schema_error(error) from None

    @cached_property
    def text(self) -> str:
        """The reader's schema as JSON, without what does not matter to reading."""
        return _text_of(self._schema) if self.found is None else _written_text(self.found[1])

    @cached_property
    def loose(self) -> bool:
        """Whether the schema was given as columns, which say nothing about names of types."""
        return self._schema is not None and _avro_of(self._schema) is None

    def _subject(self, record: str | None) -> str:
        return self.subject or subject_name(self.strategy, self.topic, record)

    def _reader(self) -> str:
        return self.text if self.only is None else _narrow(self.text, self.only)

    def schema(self) -> pa.Schema:
        return types.columns(_node(self._reader()))

    def narrowed(self, columns: Sequence[str]) -> AvroCoder:
        whole: Any = self
        made: AvroCoder = attrs.evolve(whole, only=tuple(columns))
        made.__dict__.update(found=self.found, text=self.text)
        return made

    def decode(self, values: pa.Array) -> Decoded:
        kept, rows = present(values)
        outer = Decoded(pa.RecordBatch.from_arrays([kept], names=["value"]), rows)
        if self.framing == "container":
            return under(outer, self._files(kept))
        return under(outer, self._framed(kept))

    def _framed(self, kept: pa.Array) -> Decoded:
        reader, schema = self._reader(), self.schema()
        if self.framing == "registry":
            groups, errors = registry_ids(kept)
            asking = Asking(Registry(self.registry))

            def one(number: int, part: pa.Array) -> Decoded:
                try:
                    writer = _written_text(asking.by_id(number))
                    plan = _plan(writer, reader, self.loose)
                except (RegistryError, SchemaError) as error:
                    return refused(schema, len(part), error)
                return _decoded(part, plan, schema, HEADER)

            return grouped(kept, groups, schema, one, errors)
        writers = self._writers()
        plans = [_plan(writer, reader, self.loose) for writer in writers]
        if self.framing == "none":
            return _decoded(kept, plans[0], schema, 0)
        known = [framing.fingerprint(json.loads(text)) for text in writers]
        groups, errors = framing.fingerprints(kept, known)
        skip = framing.SINGLE_HEADER
        return grouped(
            kept, groups, schema, lambda i, part: _decoded(part, plans[i], schema, skip), errors
        )

    def _writers(self) -> list[str]:
        if self.writer is None:
            return [self.text]
        given = self.writer if isinstance(self.writer, list | tuple) else [self.writer]
        return [_text_of(each) for each in given]

    def _files(self, kept: pa.Array) -> Decoded:
        node, schema = _node(self._reader()), self.schema()
        parts = []
        for row, value in enumerate(kept.to_pylist()):
            try:
                file = container.opened(value)
                plan = resolve(file.writer, node, self.loose)
                inner = _decoded(file.records(plan, self.max_size), plan, schema, 0)
            except (CodecError, SchemaError) as error:
                inner = refused(schema, 1, error)
            else:
                inner = _together(inner)
            parts.append((np.array([row]), inner))
        return merged(parts, schema, len(kept), ())

    def encode(self, rows: pa.RecordBatch) -> Encoded:
        return encoded(rows, types.columns(_node(self.text)), self._written)

    def _written(self, rows: pa.RecordBatch) -> Encoded:
        node = _node(self.text)
        if self.framing == "registry":
            try:
                number = self.found[0] if self.found is not None else self._own_id(node)
            except RegistryError as error:
                nothing = pa.nulls(rows.num_rows, pa.binary())
                return Encoded(nothing, refused(rows.schema, rows.num_rows, error).errors)
            return encode(rows, node, b"\x00" + number.to_bytes(4, "big"))
        if self.framing == "single-object":
            mark = framing.SINGLE + framing.fingerprint(json.loads(self.text))
            return encode(rows, node, mark)
        done = encode(rows, node)
        if self.framing == "container":
            head = container.header(json.loads(self.text)) + b"\x02"
            sizes = pc.fill_null(pc.binary_length(done.values), 0)
            size = signed_varints(np.asarray(sizes).astype(np.int64))
            return Encoded(joined(head, size, done.values, container.SYNC), done.errors)
        return done

    def _own_id(self, node: types.Node) -> int:
        record = node.name if isinstance(node, types.Record) else None
        registry = Registry(self.registry)
        ask = registry.register if self.register else registry.find
        # As it was given: a registry tells schemas apart by their documentation, too.
        own = _avro_of(self._schema)
        text = self.text if own is None else json.dumps(own)
        return ask(self._subject(record), Written("AVRO", text))


def _decoded(values: pa.Array, plan: Plan, schema: pa.Schema, skip: int) -> Decoded:
    parts = []
    for start, stop in spans(values, AT_ONCE):
        part = values.slice(start, stop - start)
        done = _chunk(part, plan, schema, skip)
        parts.append((np.arange(start, stop), done))
    return merged(parts, schema, len(values), ()) if parts else Decoded(empty(schema))


def _together(done: Decoded) -> Decoded:
    """All rows of one message; one bad record makes the message an error."""
    if done.errors:
        return Decoded(
            done.rows[:0], pa.array([], pa.int32()), (attrs.evolve(done.errors[0], row=0),)
        )
    return Decoded(done.rows, pa.array(np.zeros(done.rows.num_rows, np.int32)))


def _chunk(values: pa.Array, plan: Plan, schema: pa.Schema, skip: int) -> Decoded:
    under_way = Decoding(values, skip)
    batch = pa.RecordBatch.from_arrays(under_way.columns(plan), schema=schema)
    bad = under_way.buffer.bad
    if not bad.any():
        return Decoded(batch)
    faults = under_way.buffer.faults
    errors = [RowError(row=row, message=faults[row]) for row in sorted(faults)]
    good = pa.array(np.flatnonzero(~bad), pa.int32())
    return Decoded(batch.take(good), good, tuple(errors))


@lru_cache(maxsize=256)
def _node(text: str) -> types.Node:
    return types.parse(text)


@lru_cache(maxsize=256)
def _plan(writer: str, reader: str, loose: bool) -> Plan:
    return resolve(_node(writer), _node(reader), loose)


@lru_cache(maxsize=256)
def _narrow(text: str, names: tuple[str, ...]) -> str:
    node = _node(text)
    if not isinstance(node, types.Record):
        return text
    kept = tuple(field for field in node.fields if field.name in names)
    return json.dumps(types.spec(attrs.evolve(node, fields=kept)))


@lru_cache(maxsize=1024)
def _written_text(written: Written) -> str:
    if written.kind != "AVRO":
        raise SchemaError(
            "the registry's schema is of another kind", expected="AVRO", got=written.kind
        )
    known = [text for _, text in written.references]
    return json.dumps(types.spec(types.parse(written.text, known)))


def _text_of(given: Any) -> str:
    if isinstance(given, str):
        return _text_of_string(given)
    own = _avro_of(given)
    node = record_of(parse_schema(given)) if own is None else types.parse(own)
    return json.dumps(types.spec(node))


@lru_cache(maxsize=256)
def _text_of_string(given: str) -> str:
    own = _avro_of(given)
    return _text_of(parse_schema(given) if own is None else own)


def _avro_of(given: Any) -> Any:
    """The objects of a schema that is Avro; None: it is another kind of schema."""
    if isinstance(given, str):
        text = given.strip()
        if text in types.PRIMITIVES:
            return {"type": text}
        if text[:1] not in ("{", "[", '"'):
            return None
        given = types.loaded(text)
        if isinstance(given, str):
            return {"type": given}
    if isinstance(given, list) or (isinstance(given, Mapping) and "properties" not in given):
        return given
    return None
