"""Stand-ins for plugins: a queue, a coder of objects, a transform over them, sinks with promises."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from penstock.contracts import (
    UNDECODED,
    Batch,
    Connector,
    Consumer,
    Context,
    Encoded,
    Limit,
    ObjectCoder,
    Objects,
    Part,
    Planner,
    Position,
    Promise,
    QueueSource,
    ReplayableSource,
    RowError,
    Sink,
    Transform,
    Type,
    Writer,
    option,
)
from penstock.contracts import connector as configured
from penstock.contracts.errors import SchemaError


@configured
class StandInQueue(QueueSource):
    queue: str = option(doc="Its name.")
    password: str | None = option(default=None, doc="Looks like a secret, is plain text.")
    prefetch: int | None = option(default=None, doc="How many are sent ahead.")

    def takes_from(self) -> list[str]:
        return [self.queue]

    def consumer(self, ctx: Context, receiver: int) -> Consumer:
        raise AssertionError("analysis must not open a connection")


@configured
class OneFile(ReplayableSource):
    path: str = option(default="in", doc="Read in one place.")

    def schema(self) -> pa.Schema:
        return pa.schema([("line", pa.string()), ("number", pa.int64())])

    def planner(self, ctx: Context) -> Planner:
        raise AssertionError("analysis must not plan")

    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        raise AssertionError("analysis must not read")


class Count(Planner):
    def initial(self) -> Position:
        return {}

    def latest(self, after: Position, limit: Limit, until: Position | None = None) -> Position:
        return after

    def plan(self, start: Position, end: Position) -> list[Part]:
        return []


@configured
class BytesSink(Sink):
    """Takes only bytes, writes a batch once."""

    def promise(self) -> Promise:
        return Promise(replay="idempotent", atomic="batch")

    def accepts(self, schema: pa.Schema) -> pa.Schema:
        if "value" not in schema.names:
            raise SchemaError(
                "a queue takes bytes", expected="a column value", got=", ".join(schema.names)
            )
        return UNDECODED

    def open(self, batch: Batch, partition: int, attempt: int, schema: pa.Schema) -> Writer:
        raise AssertionError("analysis must not write")


@configured
class OnceSink(Sink):
    """Takes anything, writes a batch once."""

    def promise(self) -> Promise:
        return Promise(replay="idempotent", atomic="batch")

    def open(self, batch: Batch, partition: int, attempt: int, schema: pa.Schema) -> Writer:
        raise AssertionError("analysis must not write")


@configured
class ByTaskSink(OnceSink):
    """Takes anything, recognises a task's share."""

    def promise(self) -> Promise:
        return Promise(replay="idempotent", atomic="task")


@configured
class PicturesSink(OnceSink):
    """Takes nothing that we have."""

    def accepts(self, schema: pa.Schema) -> pa.Schema:
        raise SchemaError("only pictures are shown here")


class Tag:
    """A parsed element: `<order>120</order>`."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number


_TAG = re.compile(rb"^<(\w+)>(-?\d+)</\1>$")


@configured
class TagCoder(ObjectCoder):
    type = "node"

    def parse(self, values: pa.Array) -> tuple[list[object], tuple[RowError, ...]]:
        objects: list[object] = []
        errors = []
        for row, value in enumerate(values.to_pylist()):
            found = None if value is None else _TAG.match(value)
            objects.append(Tag(found[1].decode(), int(found[2])) if found else None)
            if value is not None and found is None:
                errors.append(RowError(row, "not a tag", kind="TagError"))
        return objects, tuple(errors)

    def render(self, objects: list[object]) -> Encoded:
        return Encoded(
            pa.array(
                [
                    f"<{o.name}>{o.number}</{o.name}>".encode() if isinstance(o, Tag) else None
                    for o in objects
                ],
                pa.binary(),
            )
        )


@configured
class TagFilter(Transform):
    """Keep the elements above a number; 13 is bad luck."""

    above: int = option(doc="Keep what is above.")
    grain = "objects"

    def wants(self) -> Type:
        return Objects("node")

    def apply(self, data: list[Tag]) -> list[Tag | None]:
        if any(tag.number == 13 for tag in data):
            raise ValueError("bad luck")
        return [tag if tag.number > self.above else None for tag in data]


queue = Connector(name="amqp-queue", source=StandInQueue)
onefile = Connector(name="onefile", source=OneFile)
bytesink = Connector(name="bytesink", sink=BytesSink)
once = Connector(name="once", sink=OnceSink)
by_task = Connector(name="by-task", sink=ByTaskSink)
pictures = Connector(name="pictures", sink=PicturesSink)
