"""What users give as a schema, and the one internal form: Arrow.

The mapping of every language's types is in the documentation under Types.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import attrs
import pyarrow as pa

from penstock.coders.classes import class_schema
from penstock.coders.ddl import parse_ddl
from penstock.coders.jsonschema import json_schema
from penstock.contracts.envelope import spark_form
from penstock.contracts.errors import SchemaError

FORMS = (
    "Spark DDL, an Arrow schema, an attrs or data class, an Avro schema, a JSON Schema, Protobuf"
)


def parse_schema(given: Any) -> pa.Schema:
    """The Arrow schema a user's schema stands for.

    Args:
        given: Spark DDL or a Spark `StructType`; an Arrow schema or struct type; an attrs class
            or data class; an Avro record schema, JSON Schema (as text or a mapping); a Protobuf
            message class or descriptor.

    Raises:
        SchemaError: it is none of these, or has a type that cannot be mapped.
    """
    if isinstance(given, pa.Schema):
        return spark_form(given)
    if isinstance(given, pa.DataType) and pa.types.is_struct(given):
        return spark_form(pa.schema(list(given)))
    if isinstance(given, type) and (attrs.has(given) or dataclasses.is_dataclass(given)):
        return class_schema(given)
    if isinstance(given, str):
        text = given.strip()
        return _mapped(_loaded(text)) if text.startswith("{") else parse_ddl(text)
    if isinstance(given, Mapping):
        return _mapped(given)
    if callable(getattr(given, "simpleString", None)):
        return parse_ddl(given.simpleString())
    descriptor = getattr(given, "DESCRIPTOR", given)
    if hasattr(descriptor, "fields_by_name"):
        from penstock.coders.protobuf.types import message_schema

        return message_schema(descriptor)
    raise SchemaError("this is no schema", expected=FORMS, got=repr(type(given).__name__))


def _loaded(text: str) -> Mapping[str, Any]:
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"the schema is not valid JSON: {error}", expected=FORMS) from None
    if not isinstance(loaded, Mapping):
        raise SchemaError("the schema is no JSON object", expected=FORMS)
    return loaded


def is_avro(given: Mapping[str, Any]) -> bool:
    """Whether a mapping is an Avro record schema, not a JSON Schema."""
    return given.get("type") in ("record", "error") and "fields" in given


def _mapped(given: Mapping[str, Any]) -> pa.Schema:
    if is_avro(given):
        from penstock.coders.avro.types import avro_schema

        return avro_schema(given)
    return json_schema(given)


def only(schema: pa.Schema, columns: tuple[str, ...] | None) -> pa.Schema:
    """The schema with these columns alone, in its own order; None keeps all."""
    return schema if columns is None else pa.schema([f for f in schema if f.name in columns])


def holds(kind: pa.DataType, test: Any) -> bool:
    """Whether a type, or one within it, passes a test such as `pa.types.is_map`."""
    if test(kind):
        return True
    if pa.types.is_map(kind):
        return holds(kind.key_type, test) or holds(kind.item_type, test)
    return any(holds(kind.field(i).type, test) for i in range(kind.num_fields))
