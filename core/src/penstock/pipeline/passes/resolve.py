"""From names to things: connectors, coders and steps with their options parsed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from penstock import registry
from penstock.contracts.coder import Coder
from penstock.contracts.delivery import WriteOptions, settings_class
from penstock.contracts.errors import (
    DeclareError,
    GraphError,
    PenstockError,
    UnknownNameError,
    did_you_mean,
)
from penstock.contracts.options import parse, parse_together, specs
from penstock.contracts.queue import QueueSource
from penstock.contracts.secret import Secret
from penstock.contracts.transform import Anything, Bytes, Columns, Objects, Type
from penstock.pipeline.codec import LateCoder
from penstock.pipeline.ends import SINKS, SOURCES
from penstock.pipeline.graph import MAIN, Args, Graph, Node, Policy
from penstock.pipeline.passes.checks import in_order
from penstock.pipeline.plan import Stage
from penstock.pipeline.shapes import decoded, type_of
from penstock.pipeline.steps.catalog import STEPS
from penstock.pipeline.steps.frames import OnFrame
from penstock.pipeline.steps.routes import Branch, OtherSide


def resolve(graph: Graph) -> tuple[Stage, ...]:
    """One stage per node, each after its inputs; types as the nodes alone say.

    Raises:
        UnknownNameError, OptionError, PluginError: a node names or says what cannot be.
        GraphError: two sources of one queue take each other's messages.
    """
    stages = tuple(_stage(graph, node) for node in in_order(graph))
    _one_consumer(graph, stages)
    return _what_sinks_get(_one_side_tells(stages))


def _stage(graph: Graph, node: Node) -> Stage:
    policy = node.on_error or graph.settings.on_error
    try:
        if node.kind == "source":
            return _source(node, policy)
        if node.kind == "sink":
            return sink_stage(node, policy)
        if node.what in ("decode", "encode"):
            return _coding(node, policy)
        return _step(node, policy)
    except PenstockError as error:
        raise error.by(node.name) from None


def _who(node: Node, kind: str) -> str:
    entry = registry.entry(kind, node.what)  # type: ignore[arg-type]
    return f"{node.name} ({entry.distribution} {entry.version})"


def _source(node: Node, policy: Policy) -> Stage:
    if node.what in SOURCES:
        return _spark_source(node, policy)
    cls = registry.connector(node.what).source
    who = _who(node, "connectors")
    if cls is None:
        raise DeclareError(
            f"the connector {node.what} cannot be read", who=who, fix="use it as a sink"
        )
    given = unveiled(node.args, cls)
    if node.parallelism is not None:
        given.setdefault(_breadth(cls, node, who), node.parallelism)
    work, settings = parse_together([cls, settings_class(cls)], given, who=who)
    try:
        gives = type_of(work.schema())
    except PenstockError as error:
        raise error.by(who) from None
    return Stage(
        node.name,
        node.name,
        "source",
        node.what,
        work,
        settings=settings,
        gives=gives,
        parallelism=_natural(node, cls, settings),
        policy=policy,
    )


def _spark_source(node: Node, policy: Policy) -> Stage:
    cls = SOURCES[node.what]
    if node.parallelism is not None:
        raise _own_parallelism(node, node.name)
    work = parse(cls, unveiled(node.args, cls), who=node.name)
    return Stage(node.name, node.name, "source", node.what, work, gives=work.gives(), policy=policy)


def _breadth(cls: type, node: Node, who: str) -> str:
    """The option in which a source takes its parallelism."""
    if issubclass(cls, QueueSource):
        return "receivers"
    if any(spec.name == "parallelism" for spec in specs(cls)):
        return "parallelism"
    raise _own_parallelism(node, who)


def _own_parallelism(node: Node, who: str) -> GraphError:
    return GraphError(
        "this source finds its own parallelism",
        who=who,
        got=f"parallelism={node.parallelism}",
        fix="declare it on the step after the source",
    )


def _natural(node: Node, cls: type, settings: Any) -> int | None:
    """In how many places a source is read: None where its parts decide."""
    if issubclass(cls, QueueSource):
        return int(settings.receivers)
    if "splits" in registry.connector(node.what).capabilities:
        return node.parallelism
    return 1


def sink_stage(node: Node, policy: Policy) -> Stage:
    """The stage of a sink, its options parsed."""
    settings: Any = None
    if node.what in SINKS:
        own = SINKS[node.what]
        work: Any = parse(own, unveiled(node.args, own), who=node.name)
    else:
        cls = registry.connector(node.what).sink
        who = _who(node, "connectors")
        if cls is None:
            raise DeclareError(
                f"the connector {node.what} cannot be written", who=who, fix="use it as a source"
            )
        work, settings = parse_together([cls, WriteOptions], unveiled(node.args, cls), who=who)
    return Stage(
        node.name,
        node.name,
        "sink",
        node.what,
        work,
        settings=settings,
        inputs=node.inputs,
        parallelism=1 if node.on == "driver" else node.parallelism,
        place=node.on,
        policy=policy,
    )


def coder_of(name: str, options: Mapping[str, Any], who: str, *, encode: bool) -> Any:
    """A coder, or for an encoder without a schema of its own one that waits for the rows."""
    cls = registry.coder(name)
    given = unveiled(Args(options), cls)
    wants_schema = any(spec.name == "schema" for spec in specs(cls))
    if encode and wants_schema and issubclass(cls, Coder) and not {"schema", "sample"} & set(given):
        parse(cls, {**given, "schema": "value string"}, who=who)
        return LateCoder(cls, Args(given), who)
    return parse(cls, given, who=who)


def _coding(node: Node, policy: Policy) -> Stage:
    args = node.args
    parse(STEPS[node.what], args, who=node.name)
    who = f"{node.name} (coder {args['coder']})"
    encode = node.what == "encode"
    work = coder_of(args["coder"], args.get("options", {}), who, encode=encode)
    try:
        mine = Columns(None) if isinstance(work, LateCoder) else decoded(work)
    except PenstockError as error:
        raise error.by(who) from None
    if encode and isinstance(mine, Columns):
        mine = Columns(None)
    return Stage(
        node.name,
        node.name,
        "encode" if encode else "decode",
        args["coder"],
        work,
        takes=mine if encode else Bytes(),
        gives=Bytes() if encode else mine,
        inputs=node.inputs,
        parallelism=node.parallelism,
        policy=policy,
    )


def _step(node: Node, policy: Policy) -> Stage:
    work = _transform(node)
    if getattr(work, "scatters", False) and node.parallelism is not None:
        raise GraphError(
            f"{node.what} runs in as many tasks as Spark's shuffle has",
            who=node.name,
            got=f"parallelism={node.parallelism}",
            fix="set spark.sql.shuffle.partitions, or declare it on the next step",
        )
    takes = work.wants()
    gives = takes if isinstance(takes, Objects) else Anything()
    if not isinstance(takes, Columns):
        gives = work.gives(takes) if isinstance(takes, Objects | Bytes) else Anything()
    return Stage(
        node.name,
        node.name,
        "step",
        node.what,
        work,
        takes=takes,
        gives=gives,
        inputs=node.inputs,
        parallelism=node.parallelism,
        policy=policy,
    )


def _transform(node: Node) -> Any:
    if node.what in STEPS:
        return parse(STEPS[node.what], node.args, who=node.name)
    try:
        cls = registry.transform(node.what)
    except UnknownNameError as error:
        known = [*STEPS, *registry.names("transforms")]
        raise UnknownNameError(
            f"there is no step named {node.what!r}",
            who=node.name,
            expected="one of " + ", ".join(known),
            fix=did_you_mean(node.what, known) or error.fix,
        ) from None
    given = dict(node.args)
    if MAIN in given:
        declared = specs(cls)
        if not declared:
            raise DeclareError(f"{node.what} takes no argument", who=node.name)
        given[declared[0].name] = given.pop(MAIN)
    work = parse(cls, unveiled(Args(given), cls), who=_who(node, "transforms"))
    return OnFrame(transform=work) if work.grain == "frame" else work


def unveiled(args: Args, cls: type) -> dict[str, Any]:
    """Arguments as `parse` takes them: text again where an option's name looked like a secret."""
    declared = {spec.name.lower(): spec for spec in specs(cls)}
    out = {}
    for name, value in args.items():
        spec = declared.get(name.lower())
        if isinstance(value, Secret) and spec is not None and not spec.secret:
            value = value.reference or value.reveal()
        out[name] = value.plain() if isinstance(value, Args) else value
    return out


def _one_consumer(graph: Graph, stages: tuple[Stage, ...]) -> None:
    queues = [s for s in stages if s.kind == "source" and isinstance(s.work, QueueSource)]
    for at, one in enumerate(queues):
        for other in queues[at + 1 :]:
            if one.what == other.what and _share(one.work, other.work):
                raise GraphError(
                    f"{one.name} and {other.name} consume the same queue",
                    who=graph.name,
                    expected="one consumer: a message goes to one of them only",
                    fix=f"let what reads {other.name} read {one.name} too (mirror)",
                )


def _share(one: QueueSource, other: QueueSource) -> bool:
    held = one.takes_from()
    return any(each in held for each in other.takes_from())


def _one_side_tells(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Of the two sides of a fork only one reports a record on which the predicate fails.

    That is the first one, unless the other side's own policy says more of such a record.
    """
    branches = [s for s in stages if isinstance(s.work, Branch)]
    told = {(s.inputs, s.work.when): s.policy.action for s in branches if s.work.when}
    rank = ("skip", "dead-letter", "stop")

    def quiet(stage: Stage) -> bool:
        first = told.get((stage.inputs, stage.work.unless))
        return first is not None and rank.index(stage.policy.action) <= rank.index(first)

    return tuple(
        evolve(s, work=OtherSide(unless=s.work.unless))
        if isinstance(s.work, Branch) and s.work.unless and quiet(s)
        else s
        for s in stages
    )


def _what_sinks_get(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Sinks after bytes or objects take bytes; what others take the coders' pass finds out."""
    by_name = {stage.name: stage for stage in stages}

    def nearest(name: str) -> Type:
        stage = by_name[name]
        while isinstance(stage.gives, Anything) and stage.inputs:
            stage = by_name[stage.inputs[0]]
        return Bytes() if isinstance(stage.gives, Objects | Bytes) else Anything()

    return tuple(
        evolve(stage, takes=nearest(stage.inputs[0])) if stage.kind == "sink" else stage
        for stage in stages
    )
