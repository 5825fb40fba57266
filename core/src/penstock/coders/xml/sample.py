"""The columns that some elements have: what a sample shows, and no more."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.coders.jsonread import from_text
from penstock.coders.xml.columns import NIL, VALUE
from penstock.contracts.envelope import TIMESTAMP
from penstock.contracts.errors import SchemaError

_KINDS = (pa.int64(), pa.float64(), pa.bool_(), pa.date32(), TIMESTAMP)


def columns(rows: list[Any]) -> pa.Schema:
    """The schema of elements that are rows.

    Raises:
        SchemaError: there are none, or they have no children and no attributes.
    """
    kind = _struct(rows)
    if not len(kind):
        raise SchemaError(
            "the sample's rows have no columns",
            expected="elements with children or attributes",
            got=f"{len(rows)} elements with none",
            fix="give the XPath of the sample's rows in row",
        )
    return pa.schema(list(kind))


def _struct(elements: list[Any]) -> pa.StructType:
    attributes: dict[str, list[str]] = {}
    children: dict[str, list[Any]] = {}
    repeated = set()
    for element in elements:
        for name, text in element.items():
            if name != NIL:
                attributes.setdefault(_local(name), []).append(text)
        own: dict[str, list[Any]] = {}
        for child in element:
            own.setdefault(_local(child.tag), []).append(child)
        for name, found in own.items():
            children.setdefault(name, []).extend(found)
            if len(found) > 1:
                repeated.add(name)
    fields = [pa.field(f"_{name}", _plain(texts)) for name, texts in attributes.items()]
    for name, found in children.items():
        if name.startswith("_"):
            raise SchemaError(
                f"the sample has an element {name}: such a column is an attribute",
                fix="give the schema, and the element's XPath in paths",
            )
        kind = _kind(found)
        fields.append(
            pa.field(name, pa.list_(pa.field("element", kind)) if name in repeated else kind)
        )
    texts = [text for each in elements if (text := (each.text or "").strip())]
    if texts:
        fields.append(pa.field(VALUE, _plain(texts)))
    return pa.struct(fields)


def _kind(elements: list[Any]) -> pa.DataType:
    kind = _struct(elements)
    bare = all(field.name == VALUE for field in kind)
    return kind if not bare else kind[0].type if len(kind) else pa.string()


def _plain(texts: list[str]) -> pa.DataType:
    """The first type that all texts can be read as."""
    values = pa.array([text.strip() or None for text in texts], pa.string())
    for kind in _KINDS if values.null_count < len(values) else ():
        try:
            from_text(values, kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
        return kind
    return pa.string()


def _local(name: str) -> str:
    return name.rpartition("}")[2]
