"""The connector under test as a Spark format, named by where it is defined, installed or not."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock.conformance.ledger import LedgerSink
from penstock.contracts import Connector, Context, QueueSource
from penstock.contracts.delivery import WriteOptions, settings_class
from penstock.contracts.options import parse_together
from penstock.contracts.points import reached
from penstock.spark import queues
from penstock.spark.binding import AsDeclared
from penstock.spark.sink import BatchWriter, StreamWriter
from penstock.spark.source import BatchReader, StreamReader
from penstock.spark.types import arrow_schema, spark_schema

FORMAT = "penstock.under-test"
LEDGER = "penstock.ledger"


class UnderTest(DataSource):
    """Its option `connector` is `module:attribute`; all others are the connector's."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return spark_schema(self._source()[0].schema())

    def reader(self, schema: StructType) -> DataSourceReader:
        source, settings, ctx = self._source()
        finish = AsDeclared(arrow_schema(schema))
        if isinstance(source, QueueSource):
            return queues.batch_reader(source, settings, ctx, finish)
        return BatchReader(ctx.node, source, ctx, finish, settings)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        source, settings, ctx = self._source()
        finish = AsDeclared(arrow_schema(schema))
        if isinstance(source, QueueSource):
            return queues.stream_reader(source, settings, ctx, finish)
        return StreamReader(ctx.node, source, ctx, finish, settings)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        sink, ctx = self._sink()
        return BatchWriter(ctx.node, sink, ctx, arrow_schema(schema), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        sink, ctx = self._sink()
        return WatchedWriter(ctx.node, sink, ctx, arrow_schema(schema), overwrite)

    def _source(self) -> tuple[Any, Any, Context]:
        found, given = self._found()
        assert found.source is not None
        classes = [found.source, settings_class(found.source)]
        source, settings = parse_together(classes, given)
        return source, settings, Context(node=found.name, state=settings.state)

    def _sink(self) -> tuple[Any, Context]:
        found, given = self._found()
        assert found.sink is not None
        sink, settings = parse_together([found.sink, WriteOptions], given)
        return sink, Context(node=found.name, state=settings.state)

    def _found(self) -> tuple[Connector, dict[str, str]]:
        given = {k: v for k, v in self.options.items() if k.lower() != "checkpointlocation"}
        module, _, name = given.pop("connector").partition(":")
        found: Connector = getattr(import_module(module), name)
        return found, given


class WatchedWriter(StreamWriter):
    """Says when the sink has finished and Spark has not committed yet."""

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        reached("sink-finished", batch=batchId)


class Ledger(DataSource):
    """The ledger as a Spark format for streams."""

    @classmethod
    def name(cls) -> str:
        return LEDGER

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        sink = LedgerSink(path=self.options["path"])
        return StreamWriter("ledger", sink, Context(node="ledger"), arrow_schema(schema), overwrite)
