"""Spark's view of a connector: one DataSource class each, bound when it is first used.

Importing a `pyspark_penstock_<name>` module must never raise, or Spark stops looking for all
the others: so `bind` loads nothing, and a broken plugin speaks up when its format is used.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock.contracts.errors import DeclareError, PenstockError
from penstock.registry import names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class PenstockDataSource(DataSource):
    """A connector in plain Spark; the work is done in `penstock.spark.binding`."""

    connector = ""

    @classmethod
    def name(cls) -> str:
        """The format users write."""
        return f"penstock.{cls.connector}"

    def schema(self) -> StructType:
        """The schema of a read."""
        from penstock.spark import binding

        return binding.read_schema(self.connector, self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read."""
        from penstock.spark import binding

        return binding.batch_reader(self.connector, self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A stream read."""
        from penstock.spark import binding

        return binding.stream_reader(self.connector, self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch write."""
        from penstock.spark import binding

        return binding.batch_writer(self.connector, self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """A stream write."""
        from penstock.spark import binding

        return binding.stream_writer(self.connector, self.options, schema, overwrite)


def bind(name: str) -> type[DataSource]:
    """The DataSource class of a connector, for its `pyspark_penstock_<name>` module.

    The class pickles by reference to that module, so executors find it by import.
    """
    module = f"pyspark_penstock_{name.replace('-', '_')}"
    body: dict[str, Any] = {
        "connector": name,
        "__module__": module,
        "__qualname__": "DefaultSource",
        "__doc__": f"The format `penstock.{name}`.",
    }
    return type("DefaultSource", (PenstockDataSource,), body)


def register(spark: SparkSession) -> list[str]:
    """Register every installed connector by hand; returns the formats.

    Needed only where Spark's own discovery of `pyspark_*` modules is not at work.
    """
    formats = []
    for name in names("connectors"):
        try:
            module = __import__(f"pyspark_penstock_{name.replace('-', '_')}")
            spark.dataSource.register(module.DefaultSource)
        except (ImportError, PenstockError) as error:
            warnings.warn(f"the connector {name} is left out: {error}", stacklevel=2)
            continue
        formats.append(f"penstock.{name}")
    if not formats:
        raise DeclareError("no connector is installed", fix="pip install penstock-localfile")
    return formats
