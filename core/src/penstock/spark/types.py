"""Between Arrow's schemas and Spark's."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from penstock.contracts.envelope import spark_form


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of Arrow rows; raises SchemaError for a type that Spark lacks."""
    return from_arrow_schema(spark_form(schema))


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema in which Spark gives and wants rows of its schema."""
    return to_arrow_schema(schema, timezone="UTC")
