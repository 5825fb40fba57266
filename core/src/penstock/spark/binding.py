"""From a connector's name and Spark's string options to readers and writers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from attrs import frozen
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock import registry
from penstock.contracts.delivery import WriteOptions, settings_class
from penstock.contracts.envelope import conform
from penstock.contracts.errors import DeclareError
from penstock.contracts.options import parse_together
from penstock.contracts.queue import QueueSource
from penstock.contracts.source import Context, ReplayableSource
from penstock.spark.failures import speaker, told
from penstock.spark.sink import BatchWriter, StreamWriter
from penstock.spark.source import BatchReader, StreamReader
from penstock.spark.types import arrow_schema, spark_schema

_SPARKS_OWN = {"checkpointlocation"}
"""Options of Spark's own that it hands on to a stream's sink."""


@frozen
class AsDeclared:
    """Rows as the source gives them, in the columns that were asked for."""

    schema: pa.Schema

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Only the cast to the asked schema."""
        return conform(rows, self.schema)


def read_schema(name: str, options: Mapping[str, str]) -> StructType:
    """What a read of this connector gives."""
    source, _ = _source(name, options)
    with told(speaker(name), source, "finding the schema"):
        return spark_schema(source.schema())


def batch_reader(name: str, options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """A batch read of a connector, in the columns of `schema`."""
    source, settings = _source(name, options)
    finish, ctx = AsDeclared(arrow_schema(schema)), _context(name, settings)
    if isinstance(source, QueueSource):
        from penstock.spark import queues

        return queues.batch_reader(source, settings, ctx, finish)
    return BatchReader(speaker(name), source, ctx, finish, settings)


def stream_reader(
    name: str, options: Mapping[str, str], schema: StructType
) -> DataSourceStreamReader:
    """A stream read of a connector, in the columns of `schema`."""
    source, settings = _source(name, options)
    finish, ctx = AsDeclared(arrow_schema(schema)), _context(name, settings)
    if isinstance(source, QueueSource):
        from penstock.spark import queues

        return queues.stream_reader(source, settings, ctx, finish)
    return StreamReader(speaker(name), source, ctx, finish, settings)


def batch_writer(
    name: str, options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceWriter:
    """A batch write into a connector."""
    sink, ctx = _sink(name, options)
    return BatchWriter(speaker(name), sink, ctx, arrow_schema(schema), overwrite)


def stream_writer(
    name: str, options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceStreamWriter:
    """A stream write into a connector."""
    sink, ctx = _sink(name, options)
    return StreamWriter(speaker(name), sink, ctx, arrow_schema(schema), overwrite)


def _source(name: str, options: Mapping[str, str]) -> tuple[ReplayableSource | QueueSource, Any]:
    found = registry.connector(name)
    if found.source is None:
        raise DeclareError(
            "it cannot be read", who=speaker(name), expected="a source", got="a sink only"
        )
    classes = [found.source, settings_class(found.source)]
    source, settings = parse_together(classes, dict(options), who=speaker(name))
    return source, settings


def _sink(name: str, options: Mapping[str, str]) -> tuple[Any, Context]:
    found = registry.connector(name)
    if found.sink is None:
        raise DeclareError(
            "it cannot be written", who=speaker(name), expected="a sink", got="a source only"
        )
    given = {key: value for key, value in options.items() if key.lower() not in _SPARKS_OWN}
    sink, settings = parse_together([found.sink, WriteOptions], given, who=speaker(name))
    return sink, Context(node=name, state=settings.state)


def _context(name: str, settings: Any) -> Context:
    return Context(node=name, state=settings.state)
