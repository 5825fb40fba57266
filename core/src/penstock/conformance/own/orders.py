"""A Protobuf message as `protoc` would have compiled it, and the same one a version later."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_FIELDS: list[tuple[str, int, int, bool]] = [
    ("id", 1, _Field.TYPE_INT64, False),
    ("name", 2, _Field.TYPE_STRING, False),
    ("active", 3, _Field.TYPE_BOOL, False),
    ("score", 4, _Field.TYPE_DOUBLE, False),
    ("ratio", 5, _Field.TYPE_FLOAT, False),
    ("number", 6, _Field.TYPE_SINT32, False),
    ("fixed", 7, _Field.TYPE_SFIXED64, False),
    ("raw", 8, _Field.TYPE_BYTES, False),
    ("line", 9, _Field.TYPE_MESSAGE, False),
    ("lines", 10, _Field.TYPE_MESSAGE, True),
    ("numbers", 11, _Field.TYPE_INT64, True),
    ("tags", 12, _Field.TYPE_STRING, True),
]
_LATER = [("mail", 13, _Field.TYPE_STRING, False)]


def _compiled(package: str, fields: list[tuple[str, int, int, bool]]) -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package.replace('.', '/')}.proto", package=package, syntax="proto3"
    )
    order = file.message_type.add(name="Order")
    line = order.nested_type.add(name="Line")
    line.field.add(name="sku", number=1, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
    line.field.add(name="qty", number=2, type=_Field.TYPE_INT32, label=_Field.LABEL_OPTIONAL)
    for name, number, kind, many in fields:
        made = order.field.add(name=name, number=number, type=kind)
        made.label = _Field.LABEL_REPEATED if many else _Field.LABEL_OPTIONAL
        if kind == _Field.TYPE_MESSAGE:
            made.type_name = f".{package}.Order.Line"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.Order"))


Order = _compiled("penstock.conformance.orders", _FIELDS)
LaterOrder = _compiled("penstock.conformance.later", [*_FIELDS, *_LATER])
