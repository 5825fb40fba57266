"""Steps over whole columns, without a function: rename, cast, key_by, explode, event_time, sample."""

from __future__ import annotations

import json
import zlib
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.coders.ddl import parse_type
from penstock.contracts import TIMESTAMP, Anything, Columns, Type, connector, option
from penstock.contracts.compute import pc
from penstock.contracts.errors import OptionError, SchemaError, did_you_mean
from penstock.pipeline.annotations import signature
from penstock.pipeline.functions import Function
from penstock.pipeline.graph import Policy
from penstock.pipeline.kernels import FAILED, Kernel, Outcome, each
from penstock.pipeline.records import dicts_of, objects_of, values
from penstock.pipeline.shapes import columns_of, user_columns
from penstock.pipeline.steps.step import Step, known
from penstock.pipeline.work import Work


def need(schema: pa.Schema, name: str, step: str) -> pa.Field:
    """A column of the input.

    Raises:
        SchemaError: there is none of this name.
    """
    index = schema.get_field_index(name)
    if index < 0:
        raise SchemaError(
            f"{step} has no column {name} to work on",
            expected="one of " + ", ".join(user_columns(schema).names),
            got=name,
            fix=did_you_mean(name, schema.names),
        )
    return schema.field(index)


@connector
class Rename(Step):
    """Give columns other names."""

    main: ClassVar[str | None] = "columns"

    columns: dict[str, str] = option(doc="New names by old name.", example='{"ts": "at"}')

    def gives(self, input: Type) -> Type:
        """The same columns under their new names."""
        schema = columns_of(input)
        if schema is None:
            return Columns(None)
        for name in self.columns:
            need(schema, name, "rename")
        names = [self.columns.get(name, name) for name in schema.names]
        if len(set(names)) < len(names):
            twice = sorted({n for n in names if names.count(n) > 1})
            raise SchemaError(f"rename gives two columns the name {', '.join(twice)}")
        return Columns(pa.schema([f.with_name(n) for f, n in zip(schema, names, strict=True)]))

    def apply(self, data: pa.RecordBatch) -> pa.RecordBatch:
        """The columns themselves are not touched."""
        return data.rename_columns([self.columns.get(name, name) for name in data.schema.names])


@connector
class Cast(Step):
    """Give columns other types; a value that has none becomes an error."""

    main: ClassVar[str | None] = "columns"

    columns: dict[str, str] = option(
        doc="Types by column, as in a schema.", example='{"total": "decimal(10,2)"}'
    )

    def gives(self, input: Type) -> Type:
        """The same columns in their new types."""
        schema = columns_of(input)
        if schema is None:
            return Columns(None)
        return Columns(self._cast(schema))

    def _cast(self, schema: pa.Schema) -> pa.Schema:
        for name, text in self.columns.items():
            found = need(schema, name, "cast")
            schema = schema.set(schema.names.index(name), found.with_type(parse_type(text)))
        return schema

    def apply(self, data: pa.RecordBatch) -> pa.RecordBatch:
        """Safe casts: what would lose digits or overflow fails."""
        schema = self._cast(data.schema)
        columns = [c.cast(f.type) for c, f in zip(data.columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


@connector
class EventTime(Step):
    """Take the event time from a column."""

    main: ClassVar[str | None] = "field"

    field: str = option(doc="A timestamp column, or seconds since 1970.", example="at")

    def gives(self, input: Type) -> Type:
        """The same columns."""
        schema = known(input)
        if schema is not None:
            kind = need(schema, self.field, "event_time").type
            if not (pa.types.is_timestamp(kind) or _is_number(kind) or pa.types.is_string(kind)):
                raise SchemaError(
                    f"event_time cannot be taken from the column {self.field}",
                    expected="a timestamp, seconds since 1970, or ISO 8601 text",
                    got=str(kind),
                )
        return input

    def apply(self, data: pa.RecordBatch) -> pa.RecordBatch:
        """Put the column's times into `event_time`."""
        times = data.column(self.field)
        if _is_number(times.type):
            micros = pc.round(pc.multiply(times.cast(pa.float64()), 1e6))
            times = micros.cast(pa.int64()).cast(TIMESTAMP)
        else:
            times = times.cast(TIMESTAMP)
        return data.set_column(
            data.schema.names.index("event_time"), pa.field("event_time", TIMESTAMP), times
        )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


@connector
class Explode(Step):
    """One row for each element of a list column; a row without elements gives none."""

    main: ClassVar[str | None] = "column"

    column: str = option(doc="The list column; each row holds one of its elements afterwards.")
    into: str | None = option(default=None, doc="Another name for the element's column.")
    keep_empty: bool = option(
        default=False, doc="Keep a row without elements, with a null in its place."
    )

    def gives(self, input: Type) -> Type:
        """The element's type in place of the list's."""
        schema = known(input)
        if schema is None:
            return Columns(None)
        found = need(schema, self.column, "explode")
        if not (pa.types.is_list(found.type) or pa.types.is_large_list(found.type)):
            raise SchemaError(
                f"explode cannot take the column {self.column} apart",
                expected="a list",
                got=str(found.type),
            )
        element = pa.field(self.into or self.column, found.type.value_type)
        return Columns(schema.set(schema.names.index(self.column), element))

    def apply(self, data: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array]:
        """Whole columns: parents are repeated, elements flattened."""
        at = data.schema.names.index(self.column)
        lists = data.column(at)
        if self.keep_empty:
            none = pa.array([[None]], lists.type)[0]
            empty = pc.or_kleene(pc.is_null(lists), pc.equal(pc.list_value_length(lists), 0))
            lists = pc.if_else(pc.fill_null(empty, True), none, lists)
        origin = pc.list_parent_indices(lists).cast(pa.int64())
        element = pa.field(self.into or self.column, lists.type.value_type)
        rows = data.take(origin).set_column(at, element, pc.list_flatten(lists))
        return rows, origin


_MIX = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


@connector
class Sample(Step):
    """Keep a fraction of the records, chosen by their stamps: a replay keeps the same ones.

    A record without a stamp is chosen by its id, and one without an id by what it holds.
    """

    main: ClassVar[str | None] = "fraction"
    verbatim: ClassVar[bool] = True

    fraction: float = option(
        doc="Between 0 and 1.",
        check=lambda value: None if 0 <= value <= 1 else "must lie between 0 and 1",
    )
    seed: int = option(default=0, doc="Another seed keeps other records.")

    def kernel(self, schema: pa.Schema, gives: pa.Schema) -> Kernel:
        """A mask from a hash of each stamp."""
        return self._keep

    def _keep(self, work: Work, policy: Policy) -> Outcome:
        stamp = work.pen().field("stamp")
        positions = np.asarray(pc.fill_null(stamp.field("position"), 0)).astype(np.uint64)
        parts = pc.binary_join_element_wise(
            pc.fill_null(stamp.field("origin"), ""), pc.fill_null(stamp.field("part"), ""), "/"
        ).dictionary_encode()
        salts = [
            zlib.crc32(f"{self.seed}/{name}".encode()) for name in parts.dictionary.to_pylist()
        ]
        salt = np.array([*salts, 0], dtype=np.uint64)[np.asarray(parts.indices)]
        if stamp.field("position").null_count:
            loose = np.flatnonzero(np.asarray(pc.is_null(stamp.field("position"))))
            positions = positions.copy()
            positions[loose] = _digests(work, loose)
        with np.errstate(over="ignore"):
            mixed = (positions + salt) * np.uint64(_MIX[0])
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(_MIX[1])
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_MIX[2])
            mixed ^= mixed >> np.uint64(31)
        keep = (mixed >> np.uint64(11)).astype(np.float64) / 2.0**53 < self.fraction
        origin = pa.array(np.flatnonzero(keep), pa.int64())
        return Outcome(work.payload.take(origin), origin)


def _digests(work: Work, loose: np.ndarray[Any, Any]) -> list[int]:
    """A number for each of these rows, from its id or else from its columns."""
    wanted = pa.array(loose, pa.int64())
    ids = work.pen().field("id").take(wanted).to_pylist()
    rows = work.payload.take(wanted)
    held = zip(*(values(column) for column in rows.columns), strict=True)
    told = (repr(row) if id is None else id for id, row in zip(ids, held, strict=True))
    return [zlib.crc32(text.encode()) for text in told]


@connector
class KeyBy(Step):
    """Make columns, or what a function returns, the key: equal keys meet and keep their order."""

    main: ClassVar[str | None] = "columns"
    verbatim: ClassVar[bool] = True

    columns: list[str] | None = option(default=None, doc="One column or several.")
    function: Function | None = option(default=None, doc="Gets a record, returns its key.")

    def settle(self) -> None:
        """One of the two."""
        if (self.columns is None) == (self.function is None):
            raise OptionError(
                "key_by takes columns or a function", expected="one of them", got=_which(self)
            )

    def wants(self) -> Type:
        """Anything that has the columns."""
        return Anything()

    def gives(self, input: Type) -> Type:
        """The same rows."""
        schema = columns_of(input)
        if schema is not None:
            for name in self.columns or ():
                need(schema, name, "key_by")
        return input

    def kernel(self, schema: pa.Schema, gives: pa.Schema) -> Kernel:
        """By columns, whole; by function, record by record."""
        return KeyColumns(self.columns) if self.columns is not None else KeyFunction(self, schema)


def _which(step: KeyBy) -> str:
    return "neither" if step.columns is None else "both"


class KeyColumns:
    """Keys from columns: text and bytes as they are, several columns as a JSON list."""

    def __init__(self, columns: list[str]) -> None:
        self._columns = columns

    def __call__(self, work: Work, policy: Policy) -> Outcome:
        """Whole columns at once."""
        if len(self._columns) == 1:
            column = work.payload.column(self._columns[0])
            if _castable(column.type):
                return Outcome(work.payload, key=column.cast(pa.string()).cast(pa.binary()))
            if pa.types.is_binary(column.type):
                return Outcome(work.payload, key=column)
        rows = zip(*(values(work.payload.column(c)) for c in self._columns), strict=True)
        keys = [as_key(row[0] if len(row) == 1 else list(row)) for row in rows]
        return Outcome(work.payload, key=pa.array(keys, pa.binary()))


def _castable(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


class KeyFunction:
    """Keys from a function of the user's."""

    def __init__(self, step: KeyBy, schema: pa.Schema) -> None:
        assert step.function is not None
        self._function = step.function.load()
        cls = signature(self._function).takes
        names = user_columns(schema).names
        self._read = objects_of(cls, schema.names) if cls is not None else dicts_of(names)

    def __call__(self, work: Work, policy: Policy) -> Outcome:
        """Once per record."""
        records = self._read(work.payload)
        results, failures, retried = each(lambda r: as_key(self._function(r)), records, policy)
        origin = None
        if failures:
            origin = pa.array([n for n in range(len(records)) if n not in failures], pa.int64())
        keys = pa.array([r for r in results if r is not FAILED], pa.binary())
        rows = work.payload if origin is None else work.payload.take(origin)
        return Outcome(rows, origin, failures, key=keys, retried=retried)


def as_key(value: Any) -> bytes | None:
    """A key as the bytes that brokers and shuffles see."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, default=str, separators=(",", ":")).encode()
