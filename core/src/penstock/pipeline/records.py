"""Arrow batches to Python records and back, with as little work per record as Python allows."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any

import attrs
import pyarrow as pa

from penstock.contracts.errors import SchemaError, did_you_mean
from penstock.pipeline.annotations import Field, fields_of, is_record_class

_UTC = datetime.UTC
_EXACT = 8_000_000_000_000_000  # beyond, a float of seconds no longer holds microseconds

Reader = Callable[[pa.RecordBatch], list[Any]]


def values(array: pa.Array) -> list[Any]:
    """The Python values of a column; timestamps without Arrow's slow scalar path."""
    kind = array.type
    if pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz in ("UTC", None):
        return _timestamps(array, _UTC if kind.tz else None)
    if _has_map(kind):
        return array.to_pylist(maps_as_pydicts="strict")  # type: ignore[no-any-return]
    return array.to_pylist()  # type: ignore[no-any-return]


def _timestamps(array: pa.Array, zone: datetime.tzinfo | None) -> list[Any]:
    micros = array.view(pa.int64()).to_pylist()
    make = datetime.datetime.fromtimestamp
    if any(m is not None and not -_EXACT < m < _EXACT for m in micros):
        return array.to_pylist()  # type: ignore[no-any-return]
    if zone is None:
        return [None if m is None else make(m / 1e6, _UTC).replace(tzinfo=None) for m in micros]
    if array.null_count == 0:
        return [make(m / 1e6, zone) for m in micros]
    return [None if m is None else make(m / 1e6, zone) for m in micros]


def _has_map(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    if pa.types.is_struct(kind):
        return any(_has_map(f.type) for f in kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _has_map(kind.value_type)
    return False


def dicts_of(names: Sequence[str]) -> Reader:
    """A function from a batch to one dict per row, holding these columns."""
    letters = [f"v{i}" for i in range(len(names))]
    if not names:
        return lambda batch: [{} for _ in range(batch.num_rows)]
    body = ", ".join(f"{name!r}: {letter}" for name, letter in zip(names, letters, strict=True))
    unpack = ", ".join(letters) + ("," if len(letters) == 1 else "")
    # A literal in a comprehension is three times as fast as dict(zip(...)); names are repr'd.
    make: Callable[[list[list[Any]]], list[Any]] = eval(
        f"lambda columns: [{{{body}}} for {unpack} in zip(*columns)]"
    )
    wanted = list(names)
    return lambda batch: make([values(batch.column(name)) for name in wanted])


def objects_of(cls: type, available: Sequence[str]) -> Reader:
    """A function from a batch to one instance of a record class per row."""
    fields = [f for f in fields_of(cls) if f.name in available]
    names = [f.name for f in fields]
    nested = [(i, _nested(f)) for i, f in enumerate(fields) if _nested(f) is not None]
    if _is_dict(cls):
        return dicts_of(names)
    aliases = _init_names(cls)
    keywords = [aliases[name] for name in names]
    # Positional only where the arguments given are the first ones, in order.
    positional = names == [f.name for f in fields_of(cls)][: len(names)] and not _kw_only(cls)

    def read(batch: pa.RecordBatch) -> list[Any]:
        columns = [values(batch.column(name)) for name in names]
        for at, make in nested:
            assert make is not None
            columns[at] = [None if v is None else make(v) for v in columns[at]]
        if positional:
            return [cls(*row) for row in zip(*columns, strict=True)]
        return [cls(**dict(zip(keywords, row, strict=True))) for row in zip(*columns, strict=True)]

    return read


def _init_names(cls: type) -> dict[str, str]:
    if attrs.has(cls):
        return {a.name: a.alias or a.name for a in attrs.fields(cls)}
    return {f.name: f.name for f in fields_of(cls)}


def _kw_only(cls: type) -> bool:
    if attrs.has(cls):
        return any(a.kw_only for a in attrs.fields(cls) if a.init)
    if dataclasses.is_dataclass(cls):
        return any(f.kw_only for f in dataclasses.fields(cls) if f.init)
    return False


def _is_dict(cls: type) -> bool:
    return not attrs.has(cls) and not dataclasses.is_dataclass(cls)


def _nested(field: Field) -> Callable[[Any], Any] | None:
    cls = field.type
    if isinstance(cls, type) and issubclass(cls, enum.Enum):
        return cls
    if not is_record_class(cls) or _is_dict(cls):
        return None
    aliases = _init_names(cls)
    inner = {f.name: _nested(f) for f in fields_of(cls)}

    def make(value: dict[str, Any]) -> Any:
        given = {}
        for name, raw in value.items():
            deeper = inner.get(name)
            given[aliases[name]] = deeper(raw) if deeper is not None and raw is not None else raw
        return cls(**given)

    return make


class Columnar:
    """Turns what record functions returned into columns of one schema.

    A field that a record lacks is null; one that the schema lacks is an error. `event_time` may
    always be given; where it is not, the caller keeps the record's own.
    """

    def __init__(self, schema: pa.Schema, *, hint: str) -> None:
        self._fields = [(f.name, f.type) for f in schema if f.name not in ("_pen", "event_time")]
        self._time = schema.field("event_time").type if "event_time" in schema.names else None
        self._names = {name for name, _ in self._fields}
        self._hint = hint

    def build(
        self, results: list[Any]
    ) -> tuple[list[pa.Array], pa.Array | None, dict[int, BaseException]]:
        """Columns (without `event_time`), the event times if given, and failures by index.

        Where there are failures the columns hold only the other rows, in order.
        """
        if not results:
            return [pa.array([], kind) for _, kind in self._fields], None, {}
        try:
            return self._whole(results), None, {}
        except (KeyError, AttributeError, TypeError, ValueError, OverflowError, _Odd):
            return self._one_by_one(results)

    def _whole(self, results: list[Any]) -> list[pa.Array]:
        first = type(results[0])
        if first is dict:
            if max(map(len, results)) > len(self._fields):
                raise _Odd
            get: Any = itemgetter
        elif is_record_class(first):
            known = {f.name for f in fields_of(first)}
            if not known <= self._names or set(map(type, results)) != {first}:
                raise _Odd
            get = attrgetter
        else:
            raise _Odd
        return [self._column(list(map(get(name), results)), kind) for name, kind in self._fields]

    @staticmethod
    def _column(found: list[Any], kind: pa.DataType) -> pa.Array:
        if pa.types.is_struct(kind) or pa.types.is_list(kind) or pa.types.is_map(kind):
            found = [plain(value) for value in found]
        return pa.array(found, kind)

    def _one_by_one(
        self, results: list[Any]
    ) -> tuple[list[pa.Array], pa.Array | None, dict[int, BaseException]]:
        rows: list[dict[str, Any]] = []
        failures: dict[int, BaseException] = {}
        for index, result in enumerate(results):
            try:
                record = self._checked(result)
            except SchemaError as error:
                failures[index] = error
            else:
                rows.append(record)
        times = None
        if self._time is not None and any("event_time" in row for row in rows):
            times = pa.array([row.get("event_time") for row in rows], self._time)
        columns = [pa.array([row.get(n) for row in rows], kind) for n, kind in self._fields]
        return columns, times, failures

    def _checked(self, result: Any) -> dict[str, Any]:
        record = as_dict(result)
        record.pop("_pen", None)
        for name in record:
            if name not in self._names and not (name == "event_time" and self._time is not None):
                raise SchemaError(
                    f"the function returned a field {name} that its output does not have",
                    expected=", ".join(n for n, _ in self._fields),
                    got=", ".join(map(str, record)),
                    fix=did_you_mean(str(name), self._names) or self._hint,
                )
        for name, kind in [*self._fields, ("event_time", self._time)]:
            if kind is None or record.get(name) is None:
                continue
            record[name] = plain(record[name])
            try:
                pa.array([record[name]], kind)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise SchemaError(
                    f"the field {name} has the wrong type",
                    expected=str(kind),
                    got=f"{type(record[name]).__name__} ({error})",
                ) from error
        return record


class _Odd(Exception):
    """The quick way does not fit; go record by record."""


def as_dict(record: Any) -> dict[str, Any]:
    """A record of any kind as a dict of its fields.

    Raises:
        SchemaError: it is no record.
    """
    if isinstance(record, dict):
        return dict(record)
    cls = type(record)
    if is_record_class(cls):
        return {f.name: getattr(record, f.name) for f in fields_of(cls)}
    raise SchemaError(
        "the function did not return a record",
        expected="a dict, an attrs or a dataclass instance",
        got="None" if record is None else cls.__name__,
        fix="return the record; use filter or flat_map to drop records",
    )


def plain(value: Any) -> Any:
    """A value whose nested record classes are dicts, as Arrow takes it."""
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, enum.Enum):
        return value.value
    if is_record_class(type(value)):
        return {f.name: plain(getattr(value, f.name)) for f in fields_of(type(value))}
    return value
