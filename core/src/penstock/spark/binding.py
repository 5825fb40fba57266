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
from penstock.contracts.envelope import UNDECODED, conform, is_envelope, undecoded
from penstock.contracts.errors import DeclareError, OptionError, no_coder
from penstock.contracts.options import parse_together
from penstock.contracts.queue import QueueSource
from penstock.contracts.source import Context, ReplayableSource
from penstock.pipeline.chain import Chain
from penstock.spark.decoding import chained, decoder
from penstock.spark.failures import speaker, told
from penstock.spark.settling import settle
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


@frozen
class Decoded:
    """Rows decoded in the reader, in the columns that were asked for."""

    schema: pa.Schema
    chain: Chain

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """A record that cannot be decoded has its cause in `_pen.error`."""
        return conform(self.chain.apply(undecoded(rows)), self.schema)


def read_schema(name: str, options: Mapping[str, str]) -> StructType:
    """What a read of this connector gives."""
    source, settings = source_of(name, options)
    with told(speaker(name), source, "finding the schema"):
        schema = source.schema()
    decoding = _decoding(name, schema, settings)
    return spark_schema(schema if decoding is None else decoding.schema)


def batch_reader(name: str, options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """A batch read of a connector, in the columns of `schema`."""
    source, settings = source_of(name, options)
    finish, ctx = _finish(name, source, settings, schema), context_of(name, settings)
    if isinstance(source, QueueSource):
        from penstock.spark import queues

        return queues.batch_reader(source, settings, ctx, finish)
    return BatchReader(speaker(name), source, ctx, finish, settings)


def stream_reader(
    name: str, options: Mapping[str, str], schema: StructType
) -> DataSourceStreamReader:
    """A stream read of a connector, in the columns of `schema`."""
    source, settings = source_of(name, options)
    finish, ctx = _finish(name, source, settings, schema), context_of(name, settings)
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


def source_of(name: str, options: Mapping[str, str]) -> tuple[ReplayableSource | QueueSource, Any]:
    """A connector's source, and how its records come into the query."""
    settle()
    found = registry.connector(name)
    if found.source is None:
        raise DeclareError(
            "it cannot be read", who=speaker(name), expected="a source", got="a sink only"
        )
    classes = [found.source, settings_class(found.source)]
    source, settings = parse_together(classes, dict(options), who=speaker(name))
    return source, settings


def _finish(name: str, source: Any, settings: Any, schema: StructType) -> AsDeclared | Decoded:
    asked = arrow_schema(schema)
    decoding = _decoding(name, source.schema(), settings)
    return AsDeclared(asked) if decoding is None else Decoded(asked, decoding)


def _decoding(name: str, schema: pa.Schema, settings: Any) -> Chain | None:
    """The decoding that `coder` asks for; None if it does not.

    Raises:
        OptionError: the source gives columns of its own, or there is no coder for the options.
    """
    if settings.coder is None:
        if settings.coder_options:
            raise no_coder(settings.coder_options, speaker(name))
        return None
    if not is_envelope(schema):
        raise OptionError(
            "coder decodes the value of records, and this source gives columns",
            who=speaker(name),
            got=", ".join(schema.names),
            fix="drop coder, or read the records as bytes",
        )
    return chained(decoder(settings.coder, settings.coder_options), UNDECODED)


def _sink(name: str, options: Mapping[str, str]) -> tuple[Any, Context]:
    settle()
    found = registry.connector(name)
    if found.sink is None:
        raise DeclareError(
            "it cannot be written", who=speaker(name), expected="a sink", got="a source only"
        )
    given = {key: value for key, value in options.items() if key.lower() not in _SPARKS_OWN}
    sink, settings = parse_together([found.sink, WriteOptions], given, who=speaker(name))
    if settings.coder is not None or settings.coder_options:
        raise OptionError(
            "coder belongs to a pipeline's sink",
            who=speaker(name),
            fix="write through a pipeline, or drop coder",
        )
    return sink, Context(node=name, state=settings.state)


def context_of(name: str, settings: Any) -> Context:
    """Who asks, where there is no pipeline."""
    return Context(node=name, state=settings.state)
