"""The sink that dead letters go to, where the user named one."""

from __future__ import annotations

from penstock.contracts.envelope import UNDECODED
from penstock.contracts.errors import PenstockError, SchemaError
from penstock.contracts.sink import Sink
from penstock.pipeline.graph import Graph, Node
from penstock.pipeline.joining import fresh
from penstock.pipeline.letter import LETTER
from penstock.pipeline.passes.resolve import sink_stage
from penstock.pipeline.plan import Stage

NAME = "dead-letters"


def dead_letters(graph: Graph) -> Stage | None:
    """The sink as a stage of its own; None: only the files under the checkpoint.

    Raises:
        UnknownNameError, OptionError, PluginError: it names or says what cannot be.
        SchemaError: it takes neither a letter's columns nor bytes.
    """
    end = graph.settings.dead_letters
    if end is None:
        return None
    name = fresh(NAME, {node.name for node in graph})
    node = Node(name, "sink", end.what, end.args)
    try:
        stage = sink_stage(node, graph.settings.on_error)
        if isinstance(stage.work, Sink) and not takes_columns(stage.work):
            stage.work.accepts(UNDECODED)
    except PenstockError as error:
        raise error.by(name) from None
    return stage


def takes_columns(sink: Sink) -> bool:
    """Whether it takes a letter's columns as they are; if not, it gets them as JSON."""
    try:
        sink.accepts(LETTER)
    except SchemaError:
        return False
    return True


def notes(stage: Stage | None) -> tuple[str, ...]:
    """Where dead letters go beside the checkpoint, and how often at most."""
    if stage is None:
        return ()
    again = "" if stage.work.promise().replay == "idempotent" else ", at-least-once"
    return (f"dead letters go to {stage.what} too{again}",)
