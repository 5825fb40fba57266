"""Spark's schema language (`id BIGINT, tags ARRAY<STRING>`), read without Spark."""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa

from penstock.contracts.envelope import TIMESTAMP
from penstock.contracts.errors import SchemaError, did_you_mean

MAX_DEPTH = 64

_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>`(?:[^`]|``)*`)|(?P<text>'(?:[^'\\]|\\.)*')|(?P<word>\w+)"""
    r"""|(?P<mark>[<>(),:]))""",
    re.ASCII,
)
_SIMPLE = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ltz": TIMESTAMP,
    "timestamp_ntz": pa.timestamp("us"),
    "time": pa.time64("us"),
    "void": pa.null(),
}
_KNOWN = (*_SIMPLE, "decimal", "dec", "numeric", "varchar", "char", "array", "map", "struct")


@lru_cache(maxsize=256)
def parse_ddl(text: str) -> pa.Schema:
    """The Arrow schema of a DDL string: a list of columns, or one `struct<...>`.

    `NOT NULL` and `COMMENT` are read and have no effect, as in Spark's own parsing functions.

    Raises:
        SchemaError: where it stops being DDL.
    """
    words = _Words(text)
    if words.peek().lower() == "struct" and words.peek(1) == "<":
        fields = list(words.type(0))
    else:
        fields = words.fields("", 0)
    words.expect("")
    return pa.schema(fields)


def parse_type(text: str) -> pa.DataType:
    """The Arrow type of one DDL type, such as `array<int>`."""
    words = _Words(text)
    found = words.type(0)
    words.expect("")
    return found


class _Words:
    def __init__(self, text: str) -> None:
        self.text = text
        self.words: list[tuple[str, int]] = []
        at = 0
        end = len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.error("a name, a type or punctuation", text[at:].strip()[:20], at)
            self.words.append((match.group().strip(), match.start()))
            at = match.end()
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        index = self.at + ahead
        return self.words[index][0] if index < len(self.words) else ""

    def take(self) -> str:
        word = self.peek()
        self.at += 1
        return word

    def expect(self, word: str) -> None:
        if self.peek().lower() != word:
            raise self.error(repr(word) if word else "the end", self.peek() or "the end")
        self.at += 1

    def error(self, expected: str, got: str, at: int | None = None) -> SchemaError:
        if at is None:
            at = self.words[self.at][1] if self.at < len(self.words) else len(self.text)
        return SchemaError(
            f"the DDL schema cannot be read at character {at + 1}",
            expected=expected,
            got=got,
            fix="write for instance: id BIGINT, name STRING, tags ARRAY<STRING>",
        )

    def fields(self, closing: str, depth: int) -> list[pa.Field]:
        found: list[pa.Field] = []
        while self.peek() != closing or not found:
            if found:
                self.expect(",")
            name = self.name()
            if any(name.lower() == field.name.lower() for field in found):
                raise self.error("each column once", name)
            if self.peek() == ":":
                self.take()
            found.append(pa.field(name, self.type(depth)))
            if self.peek().lower() == "not":
                self.take()
                self.expect("null")
            if self.peek().lower() == "comment":
                self.take()
                self.take()
        return found

    def name(self) -> str:
        word = self.take()
        if word.startswith("`"):
            return word[1:-1].replace("``", "`")
        if not word or not re.fullmatch(r"\w+", word, re.ASCII):
            self.at -= 1
            raise self.error("a column name", word or "the end")
        return word

    def type(self, depth: int) -> pa.DataType:
        if depth > MAX_DEPTH:
            raise self.error(f"types nested at most {MAX_DEPTH} deep", "deeper")
        word = self.take().lower()
        if word in _SIMPLE:
            return _SIMPLE[word]
        if word in ("decimal", "dec", "numeric"):
            return self.decimal()
        if word in ("varchar", "char"):
            self.numbers()
            return pa.string()
        if word == "array":
            self.expect("<")
            item = self.type(depth + 1)
            self.expect(">")
            return pa.list_(pa.field("element", item))
        if word == "map":
            self.expect("<")
            key = self.type(depth + 1)
            self.expect(",")
            value = self.type(depth + 1)
            self.expect(">")
            return pa.map_(key, value)
        if word == "struct":
            self.expect("<")
            fields = self.fields(">", depth + 1)
            self.expect(">")
            return pa.struct(fields)
        self.at -= 1
        near = did_you_mean(word, _KNOWN)
        raise self.error(f"a type{f' ({near})' if near else ''}", word or "the end")

    def numbers(self) -> list[int]:
        if self.peek() != "(":
            return []
        self.take()
        found = []
        while True:
            word = self.take()
            if not word.isdigit():
                self.at -= 1
                raise self.error("a whole number", word or "the end")
            found.append(int(word))
            if self.peek() == ")":
                self.take()
                return found
            self.expect(",")

    def decimal(self) -> pa.DataType:
        given = self.numbers() or [10]
        precision, scale = given[0], given[1] if len(given) > 1 else 0
        if len(given) > 2 or not (1 <= precision <= 38 and scale <= precision):
            raise self.error("a precision from 1 to 38 and a scale within it", str(given))
        return pa.decimal128(precision, scale)
