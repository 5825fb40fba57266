"""The declared pipeline: what the user wrote, as one immutable value.

The fluent form, `>>` and YAML all make the same `Graph`; it needs neither network nor Spark, and
knows nothing of what is installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NoReturn

from attrs import evolve, field, frozen

from penstock.contracts.options import hides
from penstock.contracts.secret import Secret, is_reference

Kind = Literal["source", "step", "sink"]
Guarantee = Literal["at-least-once", "exactly-once"]
Action = Literal["stop", "skip", "dead-letter"]

MAIN = ""
"""The key under which an argument stands that was given without a name."""


class Args(dict[str, Any]):
    """Arguments that do not change: lists within are tuples, mappings are `Args`.

    With `hide`, text under a name that says it is a secret is held as a `Secret`; references
    stay as written.
    """

    def __init__(self, given: Mapping[str, Any] | None = None, *, hide: bool = True) -> None:
        held = {str(k): _freeze(v, str(k), hide) for k, v in (given or {}).items()}
        super().__init__(held)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("the arguments of a declared node do not change")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = _refuse
    __ior__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuilt, (dict(self),))

    def plain(self) -> dict[str, Any]:
        """The same as ordinary dicts and lists."""
        return {key: _thaw(value) for key, value in self.items()}


def _rebuilt(held: dict[str, Any]) -> Args:
    return Args(held, hide=False)


def _as_args(given: Mapping[str, Any]) -> Args:
    return given if isinstance(given, Args) else Args(given)


def _freeze(value: Any, name: str, hide: bool) -> Any:
    if isinstance(value, Args):
        return value
    if isinstance(value, Mapping):
        return Args(value, hide=hide)
    if isinstance(value, list | tuple):
        return tuple(_freeze(each, "", hide) for each in value)
    if hide and isinstance(value, str) and hides(name) and not is_reference(value):
        return Secret(value)
    return value


def _thaw(value: Any) -> Any:
    if isinstance(value, Args):
        return value.plain()
    return [_thaw(each) for each in value] if isinstance(value, tuple) else value


@frozen
class Policy:
    """What to do when a record fails at a node.

    Attributes:
        action: `dead-letter` keeps it aside, `skip` counts it, `stop` fails the pipeline.
        retries: How often an ephemeral error is tried again before it counts as permanent.
        backoff: Seconds before the first retry; each further one waits twice as long, with jitter.
        longest: Seconds no single wait exceeds.
    """

    action: Action = "dead-letter"
    retries: int = 3
    backoff: float = 0.1
    longest: float = 10.0


@frozen
class End:
    """A connector with its options, outside the graph: where dead letters go."""

    what: str
    args: Args = field(factory=Args, converter=_as_args)


@frozen
class Settings:
    """What holds for the whole pipeline.

    Attributes:
        guarantee: What the user demands; None takes the best that all ends keep.
        on_error: The policy of nodes that declare none.
        dead_letters: Where dead letters go; None: files under the checkpoint.
        max_rows: Most rows of a batch, shared out evenly over the sources; a source's own
            smaller limit holds.
        max_bytes: Most bytes of a batch, shared out the same way.
        max_wait: Seconds between batches at most (the trigger of an unbounded pipeline).
        bounded: True: read what is there now, then end. None: as the source says.
    """

    guarantee: Guarantee | None = None
    on_error: Policy = field(factory=Policy)
    dead_letters: End | None = None
    max_rows: int | None = None
    max_bytes: int | None = None
    max_wait: float | None = None
    bounded: bool | None = None


@frozen
class Node:
    """One declared source, step or sink.

    Attributes:
        name: Unique in its graph; dead letters, counts and state folders carry it.
        what: A connector's name, or a step's.
        args: As the user wrote them; functions as `Function`, secrets as `Secret`, references
            such as `${env:NAME}` untouched.
        inputs: The names of the nodes it reads, in order.
        parallelism: How many tasks run it; None lets its neighbours decide.
        on: A place: `driver`, or None for the workers.
        on_error: Its own policy, else the pipeline's.
    """

    name: str
    kind: Kind
    what: str
    args: Args = field(factory=Args, converter=_as_args)
    inputs: tuple[str, ...] = ()
    parallelism: int | None = None
    on: str | None = None
    on_error: Policy | None = None


@frozen
class Graph:
    """A declared pipeline. Equal by value."""

    name: str
    nodes: tuple[Node, ...] = ()
    settings: Settings = field(factory=Settings)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __getitem__(self, name: str) -> Node:
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def of_kind(self, kind: Kind) -> tuple[Node, ...]:
        """The nodes of one kind, in declared order."""
        return tuple(node for node in self.nodes if node.kind == kind)

    def consumers(self, name: str) -> tuple[Node, ...]:
        """The nodes that read this one, in declared order."""
        return tuple(node for node in self.nodes if name in node.inputs)

    def with_node(self, node: Node) -> Graph:
        """The same graph with one node more."""
        return evolve(self, nodes=(*self.nodes, node))

    def with_settings(self, **changes: Any) -> Graph:
        """The same graph with other settings."""
        return evolve(self, settings=evolve(self.settings, **changes))
