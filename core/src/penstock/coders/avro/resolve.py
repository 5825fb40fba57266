"""A reader's schema against a writer's: what to do with each thing that was written.

The outcome is decided once per pair of schemas, before any byte is read.
"""

from __future__ import annotations

import decimal
from typing import Any

import pyarrow as pa
from attrs import frozen

from penstock.coders.avro.types import (
    NULL,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
    arrow,
    members,
    short,
)
from penstock.contracts.errors import SchemaError

_PROMOTED = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}


@frozen
class Leaf:
    """A primitive, fixed or enum, read as written and turned into the reader's type."""

    written: Primitive | Fixed
    read: Primitive | Fixed


@frozen
class Symbols:
    """An enum: the reader's text for each written index; None: the reader does not know it."""

    texts: tuple[str | None, ...]


@frozen
class Struct:
    """A record: what was written in its order, where it goes, and what the reader adds."""

    steps: tuple[tuple[Plan, int | None], ...]
    type: pa.DataType
    added: tuple[tuple[int, pa.Scalar], ...]


@frozen
class Items:
    """An array."""

    items: Plan
    type: pa.DataType


@frozen
class Entries:
    """A map."""

    values: Plan
    type: pa.DataType


@frozen
class Choice:
    """A union: for each written branch its plan and the member it becomes (None: null).

    `single`: the reader has one type, not a struct of members. A plan of None is a branch that
    the reader does not have. `indexed`: the branch's number was written before it.
    """

    branches: tuple[tuple[Plan | None, int | None], ...]
    type: pa.DataType
    single: bool
    indexed: bool


Plan = Leaf | Symbols | Struct | Items | Entries | Choice


def resolve(writer: Node, reader: Node, loose: bool = False) -> Plan:
    """How to read with `reader` what was written with `writer`.

    Args:
        writer: The schema of the records.
        reader: The schema of the columns.
        loose: The reader's schema was made from columns, which have no names of types: records
            match whatever they are called, and enums and fixed types are text and bytes.

    Raises:
        SchemaError: by Avro's rules it cannot be.
    """
    if isinstance(writer, Union):
        return _from_union(writer, reader, loose)
    if isinstance(reader, Union):
        return _from_union(Union((writer,)), reader, loose, indexed=False)
    if isinstance(writer, Record) and isinstance(reader, Record):
        return _record(writer, reader, loose)
    if isinstance(writer, Array) and isinstance(reader, Array):
        return Items(resolve(writer.items, reader.items, loose), arrow(reader))
    if isinstance(writer, Map) and isinstance(reader, Map):
        return Entries(resolve(writer.values, reader.values, loose), arrow(reader))
    if isinstance(writer, Enum) and isinstance(reader, Enum) and _named_alike(writer, reader):
        texts = [s if s in reader.symbols else reader.default for s in writer.symbols]
        return Symbols(tuple(texts))
    if loose and isinstance(writer, Enum) and reader == Primitive("string"):
        return Symbols(writer.symbols)
    if isinstance(writer, Primitive | Fixed) and isinstance(reader, Primitive | Fixed):
        return _leaf(writer, reader, loose)
    raise _never(writer, reader)


def _leaf(writer: Primitive | Fixed, reader: Primitive | Fixed, loose: bool) -> Leaf:
    if isinstance(writer, Fixed) and isinstance(reader, Fixed):
        alike = _named_alike(writer, reader) and writer.size == reader.size
    elif isinstance(writer, Primitive) and isinstance(reader, Primitive):
        alike = writer.kind == reader.kind or (writer.kind, reader.kind) in _PROMOTED
    else:
        wanted = "string" if writer.logical == "uuid" else "bytes"
        alike = loose and isinstance(reader, Primitive) and reader.kind == wanted
    both = {writer.logical, reader.logical}
    if "decimal" in both:
        fits = writer.precision <= reader.precision if loose else False
        same = writer.precision == reader.precision or fits
        alike = alike and len(both) == 1 and writer.scale == reader.scale and same
    counted = {_counted(each.logical) for each in (writer, reader)} - {""}
    if not alike or len(counted) > 1:
        raise _never(writer, reader)
    return Leaf(writer, reader)


def _counted(logical: str | None) -> str:
    """What a number of a logical type counts from: `date`, `time`, `timestamp`; else nothing."""
    name = (logical or "").removeprefix("local-").partition("-")[0]
    return name if name in ("date", "time", "timestamp") else ""


def _record(writer: Record, reader: Record, loose: bool) -> Struct:
    if not loose and not _named_alike(writer, reader):
        raise _never(writer, reader)
    wanted: dict[str, int] = {}
    for index, field in enumerate(reader.fields):
        for name in (field.name, *field.aliases):
            wanted.setdefault(name, index)
    steps: list[tuple[Plan, int | None]] = []
    found = set()
    for field in writer.fields:
        index_of = wanted.get(field.name)
        if index_of is None or index_of in found:
            steps.append((resolve(field.type, field.type), None))
            continue
        found.add(index_of)
        try:
            steps.append((resolve(field.type, reader.fields[index_of].type, loose), index_of))
        except SchemaError as error:
            raise _within(error, field.name) from None
    added = []
    for index, field in enumerate(reader.fields):
        if index not in found:
            added.append((index, _default(field, reader)))
    return Struct(tuple(steps), arrow(reader), tuple(added))


def _default(field: Field, reader: Record) -> pa.Scalar:
    if not field.has_default:
        raise SchemaError(
            f"the field {field.name} of {reader.name} was not written and has no default",
            expected="a default in the reader's schema",
            fix="give the field a default, or read with the writer's schema",
        )
    return default_value(field.type, field.default)


def default_value(node: Node, given: Any) -> pa.Scalar:
    """A default of a schema as a value of its column.

    Raises:
        SchemaError: it is no value of the type.
    """
    try:
        return pa.scalar(_value(node, given), arrow(node))
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError):
        raise SchemaError(
            "a default is no value of its field's type", expected=str(arrow(node)), got=repr(given)
        ) from None


def _value(node: Node, given: Any) -> Any:
    if isinstance(node, Union):
        return _member_value(node, given)
    if isinstance(node, Record):
        return {f.name: _value(f.type, given.get(f.name, f.default)) for f in node.fields}
    if isinstance(node, Array):
        return [_value(node.items, each) for each in given]
    if isinstance(node, Map):
        return [(key, _value(node.values, each)) for key, each in given.items()]
    if isinstance(node, Enum):
        if given not in node.symbols:
            raise ValueError("it is no symbol")
        return given
    if isinstance(node, Fixed) or node.kind == "bytes":
        raw = given.encode("latin-1")
        if node.logical == "decimal":
            with decimal.localcontext(decimal.Context(prec=60)):
                unscaled = decimal.Decimal(int.from_bytes(raw, "big", signed=True))
                return unscaled.scaleb(-node.scale)
        return raw
    if node.logical is not None and node.kind in ("int", "long"):
        unit = {"millis": 1000, "micros": 1}.get(node.logical.rpartition("-")[2])
        number = given // 1000 if node.logical.endswith("nanos") else given * (unit or 1)
        width = pa.int32() if node.kind == "int" and node.logical == "date" else pa.int64()
        return pa.scalar(number, width).cast(arrow(node)).as_py()
    return given


def _member_value(node: Union, given: Any) -> Any:
    """Avro: a default is of the first branch that it is a value of."""
    if given is None and NULL in node.branches:
        return None
    kept = members(node)
    for number, branch in enumerate(kept):
        try:
            found = default_value(branch, given).as_py()
        except SchemaError:
            continue
        return found if len(kept) == 1 else {f"member{number}": found}
    raise ValueError("it is a value of no branch")


def _from_union(writer: Union, reader: Node, loose: bool, indexed: bool = True) -> Choice:
    targets = reader.branches if isinstance(reader, Union) else (reader,)
    kept = members(reader) if isinstance(reader, Union) else (reader,)
    branches: list[tuple[Plan | None, int | None]] = []
    refusals: list[SchemaError] = []
    for branch in writer.branches:
        plan, target = _target(branch, targets, loose, refusals)
        member = None
        if plan is not None and (target != NULL or branch != NULL):
            member = next(i for i, each in enumerate(kept) if each is target)
        branches.append((plan, member))
    if all(plan is None for plan, _ in branches):
        # Where there was one way only, its reason says more than that there was none.
        raise refusals[0] if len(refusals) == 1 else _never(writer, reader)
    return Choice(tuple(branches), arrow(reader), single=len(kept) <= 1, indexed=indexed)


def _target(
    branch: Node, targets: tuple[Node, ...], loose: bool, refusals: list[SchemaError]
) -> tuple[Plan | None, Node | None]:
    """The first of the reader's types that is the branch, else the first that can read it."""
    for each in targets:
        if branch == each:
            return resolve(branch, each, loose), each
    for each in targets:
        try:
            return resolve(branch, each, loose), each
        except SchemaError as error:
            if NULL not in (branch, each):
                refusals.append(error)
    return None, None


def _named_alike(writer: Record | Enum | Fixed, reader: Record | Enum | Fixed) -> bool:
    return short(writer.name) in {short(reader.name), *reader.aliases}


def _within(error: SchemaError, name: str) -> SchemaError:
    return SchemaError(
        f"in the field {name}: {error.message}",
        expected=error.expected,
        got=error.got,
        fix=error.fix,
    )


def _never(writer: Node, reader: Node) -> SchemaError:
    return SchemaError(
        "the reader's schema cannot read what the writer's wrote",
        expected=_words(reader),
        got=_words(writer),
        fix="make the schemas compatible by Avro's rules of resolution",
    )


def _words(node: Node) -> str:
    if isinstance(node, Primitive):
        return node.kind if node.logical is None else f"{node.kind} ({node.logical})"
    if isinstance(node, Union):
        return f"one of {', '.join(_words(each) for each in node.branches)}"
    kind = type(node).__name__.lower()
    return f"{kind} {node.name}" if isinstance(node, Record | Enum | Fixed) else kind
