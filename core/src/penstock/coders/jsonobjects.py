"""JSON through Python objects: for schemas the vectorised parser has no type for (maps).

It is also the plain statement of the rules, which tests hold the fast path to.
"""

from __future__ import annotations

import decimal
import json
import math
import re
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.coders.jsonread import instants, settle, wire
from penstock.contracts.errors import CodecError


class _Twice(dict[str, Any]):
    """An object in which some names come twice."""

    names: frozenset[str] = frozenset()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    twice = _Twice(found)
    counts = Counter(name for name, _ in pairs)
    twice.names = frozenset(name for name, count in counts.items() if count > 1)
    return twice


def _constant(_: str) -> Any:
    raise ValueError("NaN and Infinity are no numbers")


def parse(text: str, *, exact: bool = False) -> Any:
    """One JSON document as Python objects; `exact` keeps fractions as decimals.

    Raises:
        CodecError: it is not valid JSON, or nested too deep.
    """
    try:
        return json.loads(
            text,
            parse_float=decimal.Decimal if exact else None,
            parse_constant=_constant,
            object_pairs_hook=_object,
        )
    except RecursionError:
        raise CodecError("it is nested too deep") from None
    except ValueError as error:
        raise _invalid(error) from None


_DECODER = json.JSONDecoder(parse_constant=_constant)
_SPACE = re.compile(r"[ \t\r\n]*")


def elements(text: str) -> list[str]:
    """The elements of a JSON array, each as the text it was written as.

    Raises:
        CodecError: it is not one array of objects.
    """
    if not text.startswith("["):
        raise CodecError("it is not one JSON array")
    found = []
    at = _after_space(text, 1)
    closed = text[at : at + 1] == "]"
    while not closed:
        try:
            value, end = _DECODER.raw_decode(text, at)
        except RecursionError:
            raise CodecError("it is nested too deep") from None
        except ValueError as error:
            raise _invalid(error) from None
        if not isinstance(value, dict):
            raise CodecError(f"the array holds a JSON {_word(value)}, not an object")
        found.append(text[at:end])
        at = _after_space(text, end)
        if text[at : at + 1] not in (",", "]"):
            raise CodecError("it is not valid JSON: a comma or ] is missing in the array")
        closed = text[at] == "]"
        if not closed:
            at = _after_space(text, at + 1)
    if _after_space(text, at + 1) != len(text):
        raise CodecError("it is not valid JSON: something follows the array")
    return found


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _invalid(error: ValueError) -> CodecError:
    said = getattr(error, "msg", None) or "a number has too many digits, or is none"
    return CodecError(f"it is not valid JSON: {said}")


def from_objects(objects: list[Any], schema: pa.Schema) -> pa.RecordBatch:
    """Columns of parsed JSON objects.

    Raises:
        CodecError: a value is not of its column's type.
    """
    columns = []
    for field in schema:
        kind = wire(field.type)
        values = [_shaped(_named(each, field.name, ""), kind, field.name) for each in objects]
        try:
            columns.append(settle(pa.array(values, kind), field.type))
        except UnicodeEncodeError:
            raise CodecError(f"the field {field.name} holds half of a surrogate pair") from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _of(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CodecError(f"the field {where or '/'} is not a JSON object")
    return value


def _named(value: Any, name: str, where: str) -> Any:
    given = _of(value, where)
    if isinstance(given, _Twice) and name in given.names:
        raise _comes_twice(f"{where}.{name}" if where else name)
    return given.get(name)


def _comes_twice(name: str) -> CodecError:
    return CodecError(f"the field {name} comes twice")


def _shaped(value: Any, kind: pa.DataType, where: str) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {
            f.name: _shaped(_named(value, f.name, where), f.type, f"{where}.{f.name}") for f in kind
        }
    if pa.types.is_map(kind):
        if isinstance(value, _Twice):
            raise _comes_twice(f"{where}.*")
        items = _of(value, where).items()
        return [(k, _shaped(v, kind.item_type, f"{where}.*")) for k, v in items]
    if pa.types.is_list(kind) and isinstance(value, list):
        return [_shaped(each, kind.value_type, f"{where}[]") for each in value]
    number = isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool)
    if pa.types.is_boolean(kind) and isinstance(value, bool):
        return value
    if pa.types.is_integer(kind) and isinstance(value, int) and number:
        return _ranged(value, kind, where)
    if pa.types.is_floating(kind) and number:
        return _real(value, kind, where)
    if pa.types.is_decimal(kind) and (number or isinstance(value, str)):
        return _decimal(value, where)
    if pa.types.is_string(kind) and isinstance(value, str):
        return value
    if pa.types.is_timestamp(kind) and isinstance(value, str):
        return _instant(value, kind)
    raise CodecError(f"the field {where} holds a JSON {_word(value)}, not a {kind}")


def _instant(text: str, kind: pa.DataType) -> Any:
    return instants(pa.array([text], pa.string()), kind)[0].value


def _ranged(value: int, kind: pa.DataType, where: str) -> int:
    signed = pa.types.is_signed_integer(kind)
    bits = kind.bit_width - signed
    if not (-(2**bits) if signed else 0) <= value < 2**bits:
        raise CodecError(f"the field {where} holds a number out of the range of {kind}")
    return value


def _real(value: Any, kind: pa.DataType, where: str) -> float:
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    with np.errstate(over="ignore"):
        narrow = np.dtype(kind.to_pandas_dtype()).type(found)
    if math.isinf(narrow):
        raise CodecError(f"the field {where} holds a number out of the range of {kind}")
    return found


def _decimal(value: Any, where: str) -> decimal.Decimal:
    try:
        return decimal.Decimal(str(value) if isinstance(value, float) else value)
    except decimal.InvalidOperation:
        raise CodecError(f"the field {where} is not a decimal number") from None


def _word(value: Any) -> str:
    words = {bool: "boolean", str: "string", dict: "object", list: "array"}
    return words.get(type(value), "number")
