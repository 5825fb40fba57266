"""Where types change: coders put in at the latest point possible, and mismatches refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from attrs import define, evolve, field

from penstock import registry
from penstock.contracts.coder import ObjectCoder
from penstock.contracts.envelope import TIMESTAMP, UNDECODED
from penstock.contracts.errors import PenstockError, SchemaError, TypeMismatchError
from penstock.contracts.options import parse
from penstock.contracts.sink import Sink
from penstock.contracts.transform import Anything, Bytes, Columns, Objects, Type
from penstock.pipeline.codec import LateCoder
from penstock.pipeline.joining import fresh
from penstock.pipeline.passes.resolve import coder_of
from penstock.pipeline.plan import Stage
from penstock.pipeline.shapes import columns_of, fits, full, given_by, missing, user_columns
from penstock.pipeline.steps.frames import Select

_KINDS = (pa.string(), pa.binary(), pa.int64(), pa.float64(), pa.bool_(), TIMESTAMP)


@define
class _Typing:
    """The stages typed so far."""

    stages: dict[str, Stage] = field(factory=dict)
    readers: Counter[str] = field(factory=Counter)
    coded: dict[str, str | None] = field(factory=dict)
    named: dict[str, pa.Schema | None] = field(factory=dict)
    rendered: dict[str, str] = field(factory=dict)
    taken: set[str] = field(factory=set)

    def add(self, stage: Stage, coder: str | None) -> str:
        self.stages[stage.name] = stage
        self.coded[stage.name] = coder
        self.named[stage.name] = self._named(stage)
        self.taken.add(stage.name)
        return stage.name

    def _named(self, stage: Stage) -> pa.Schema | None:
        """The columns a stage gives: as its type says, or by name where only Spark knows types."""
        columns = columns_of(stage.gives)
        if columns is not None:
            return columns
        if isinstance(stage.work, Select):
            return stage.work.named(stage.takes)
        alone = stage.verbatim and len(stage.inputs) == 1
        return self.named[stage.inputs[0]] if alone else None


def coders(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Type every stage, with the coders that some of them need before them.

    Raises:
        TypeMismatchError: a stage gets what it cannot take and no coder mends it.
    """
    typing = _Typing(taken={stage.name for stage in stages})
    typing.readers = Counter(name for stage in stages for name in stage.inputs)
    for stage in stages:
        try:
            _place(typing, stage)
        except PenstockError as error:
            raise error.by(stage.name) from None
    return tuple(typing.stages.values())


def _place(typing: _Typing, stage: Stage) -> None:
    if stage.kind == "source":
        typing.add(stage, None)
        return
    inputs = tuple(_suited(typing, name, stage) for name in stage.inputs)
    given = [typing.stages[name].gives for name in inputs]
    taken = _agreed(typing, inputs, stage) if len(given) > 1 else given[0]
    if stage.kind in ("split", "merge-sort", "sink"):
        gives = taken
    elif stage.kind == "encode":
        gives = Bytes()
        if isinstance(stage.work, LateCoder) and isinstance(taken, Columns) and taken.schema:
            stage = evolve(stage, work=stage.work.settled(user_columns(taken.schema)))
    elif stage.kind == "decode":
        gives = stage.gives
    else:
        gives = given_by(stage.work, taken)
    coder = stage.what if stage.kind == "decode" else typing.coded[inputs[0]]
    typing.add(evolve(stage, inputs=inputs, takes=taken, gives=gives), coder)
    if isinstance(gives, Objects) and typing.readers[stage.name] > 1:
        _render(typing, stage.name, stage.node)


def _suited(typing: _Typing, name: str, stage: Stage) -> str:
    """What the stage reads in place of `name`, so that it gets a type it wants."""
    name = typing.rendered.get(name, name)
    given = typing.stages[name].gives
    wanted = _wanted(stage, given)
    if isinstance(given, Objects) and given != wanted:
        name = _render(typing, name, typing.stages[name].node)
        given = Bytes()
    if isinstance(wanted, Objects) and given != wanted and isinstance(given, Bytes):
        return _parse(typing, name, wanted, stage)
    if stage.kind == "sink":
        return _for_sink(typing, name, stage)
    again = stage.kind == "encode" and isinstance(given, Bytes)
    if again or not fits(given, wanted):
        raise _mismatch(typing, name, stage, given, wanted)
    return name


def _wanted(stage: Stage, given: Type) -> Type:
    if stage.kind == "encode" and isinstance(stage.work, ObjectCoder):
        return Objects(stage.work.type)
    if stage.kind in ("decode", "encode", "step"):
        return stage.takes
    return Anything()


def _render(typing: _Typing, name: str, node: str) -> str:
    if name in typing.rendered:
        return typing.rendered[name]
    kind = typing.stages[name].gives
    assert isinstance(kind, Objects)
    coder, work = object_coder(kind)
    called = fresh(f"{coder}-encode", typing.taken)
    made = _between(called, node, "encode", coder, work, name, kind, Bytes(), typing)
    typing.rendered[name] = typing.add(made, typing.coded[name])
    return called


def _parse(typing: _Typing, name: str, wanted: Objects, stage: Stage) -> str:
    coder, work = object_coder(wanted)
    called = fresh(f"{coder}-decode", typing.taken)
    made = _between(called, stage.node, "decode", coder, work, name, Bytes(), wanted, typing)
    return typing.add(evolve(made, policy=stage.policy), coder)


def _between(
    called: str,
    node: str,
    kind: Any,
    what: str,
    work: Any,
    after: str,
    takes: Type,
    gives: Type,
    typing: _Typing,
) -> Stage:
    return Stage(
        called,
        node,
        kind,
        what,
        work,
        takes=takes,
        gives=gives,
        inputs=(after,),
        parallelism=typing.stages[after].parallelism,
        policy=typing.stages[after].policy,
    )


def object_coder(kind: Objects) -> tuple[str, ObjectCoder]:
    """The installed coder of a type of objects, and its name.

    Raises:
        TypeMismatchError: none is installed.
    """
    for listed in registry.listing("coders"):
        found = listed.found
        if isinstance(found, type) and issubclass(found, ObjectCoder) and found.type == kind.name:
            return listed.entry.name, parse(found, {}, who=listed.entry.who)
    raise TypeMismatchError(
        f"no installed coder makes {kind} objects",
        expected=f"a coder of the type {kind}",
        got=", ".join(registry.names("coders")),
        fix="install the package that has it",
    )


def _for_sink(typing: _Typing, name: str, stage: Stage) -> str:
    given = typing.stages[name].gives
    columns = typing.named[name]
    if columns is None or not isinstance(stage.work, Sink):
        return name
    refused = _refusal(stage.work, columns)
    if refused is None:
        return name
    coder = typing.coded[name]
    if isinstance(given, Columns) and coder is not None and _takes_bytes(stage.work):
        work = coder_of(coder, {}, f"{stage.name} (coder {coder})", encode=True)
        if isinstance(work, LateCoder) and columns_of(given) is not None:
            work = work.settled(user_columns(columns))
        called = fresh(f"{coder}-encode", typing.taken)
        made = _between(called, stage.node, "encode", coder, work, name, given, Bytes(), typing)
        return typing.add(evolve(made, policy=stage.policy), coder)
    raise TypeMismatchError(
        f"{stage.name} cannot take what {_node(typing, name)} gives: {refused.message}",
        expected=refused.expected,
        got=_told(columns) if _unknown(columns) else refused.got or str(given),
        fix='put .encode("json") or another coder between them'
        if isinstance(given, Columns) and _takes_bytes(stage.work)
        else refused.fix,
    ) from None


def _refusal(sink: Sink, columns: pa.Schema) -> SchemaError | None:
    """Why a sink does not take rows of these columns, whatever Spark makes of those unknown."""
    unknown = _unknown(columns)
    if "value" in unknown:
        return None
    refused = None
    for kind in _KINDS if unknown else (None,):
        tried = [pa.field(f.name, kind) if f.name in unknown else f for f in columns]
        try:
            sink.accepts(full(pa.schema(tried)))
            return None
        except SchemaError as error:
            refused = error
    return refused


def _unknown(columns: pa.Schema) -> set[str]:
    return {f.name for f in columns if pa.types.is_null(f.type)}


def _told(columns: pa.Schema) -> str:
    unknown, own = _unknown(columns), user_columns(columns)
    return ", ".join(f.name if f.name in unknown else f"{f.name} {f.type}" for f in own)


def _takes_bytes(sink: Sink) -> bool:
    try:
        sink.accepts(UNDECODED)
    except SchemaError:
        return False
    return True


def _node(typing: _Typing, name: str) -> str:
    return typing.stages[name].node


def _mismatch(
    typing: _Typing, name: str, stage: Stage, given: Type, wanted: Type
) -> TypeMismatchError:
    got = str(given)
    have = columns_of(given)
    if isinstance(wanted, Columns) and wanted.schema is not None and have is not None:
        got += f" ({'; '.join(missing(have, wanted.schema))})"
    fix = None
    if stage.kind == "encode" and isinstance(given, Bytes):
        fix = "it is bytes already: remove the encode"
    elif isinstance(given, Bytes):
        fix = 'put .decode("json", schema=...) or another coder between them'
    elif isinstance(wanted, Bytes):
        fix = (
            "it is decoded already: remove the decode"
            if stage.kind == "decode"
            else 'put .encode("json") or another coder between them'
        )
    return TypeMismatchError(
        f"{stage.name} cannot take what {_node(typing, name)} gives",
        expected=str(wanted),
        got=got,
        fix=fix,
    )


def _agreed(typing: _Typing, inputs: tuple[str, ...], stage: Stage) -> Type:
    """The one type of several inputs."""
    first = typing.stages[inputs[0]].gives
    for name in inputs[1:]:
        other = typing.stages[name].gives
        if _shape(first) != _shape(other) and _shape(first) and _shape(other):
            raise TypeMismatchError(
                f"{stage.name} merges records of different types",
                expected=f"what {_node(typing, inputs[0])} gives: {first}",
                got=f"what {_node(typing, name)} gives: {other}",
                fix="bring them to the same columns first (select, map, rename, cast)",
            )
    kinds = [typing.stages[name].gives for name in inputs]
    return next((k for k in kinds if columns_of(k) is None), first)


def _shape(kind: Type) -> frozenset[tuple[str, str]]:
    columns = columns_of(kind)
    return frozenset((f.name, str(f.type)) for f in columns) if columns is not None else frozenset()
