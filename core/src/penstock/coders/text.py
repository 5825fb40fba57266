"""Text in any encoding, and plain bytes."""

from __future__ import annotations

import codecs

import pyarrow as pa

from penstock.coders.isolate import isolate
from penstock.coders.parts import assemble, lines_of, present, under
from penstock.contracts.coder import Coder, Decoded, Encoded, RowError
from penstock.contracts.compute import pc
from penstock.contracts.options import connector, option

_PLAIN = {"utf-8", "ascii"}


def _is_encoding(name: str) -> str | None:
    try:
        info = codecs.lookup(name)
    except LookupError:
        return "must be an encoding Python knows, such as utf-8, latin-1 or utf-16"
    if not getattr(info, "_is_text_encoding", True):
        return "must be a text encoding"
    return None


@connector
class BytesCoder(Coder):
    """Bytes as they are, in one binary column."""

    column: str = option(default="value", doc="Name of the column.")

    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(self.column, pa.binary())])

    def decode(self, values: pa.Array) -> Decoded:
        kept, origin = present(values)
        return Decoded(pa.RecordBatch.from_arrays([kept], schema=self.schema()), origin)

    def encode(self, rows: pa.RecordBatch) -> Encoded:
        return Encoded(rows.column(self.column).cast(pa.binary()))


@connector
class TextCoder(Coder):
    """Text in one string column: a row per message, or per line of it."""

    encoding: str = option(default="utf-8", doc="Encoding of the bytes.", check=_is_encoding)
    column: str = option(default="value", doc="Name of the column.")
    lines: bool = option(default=False, doc="Give a row for each line, not for each message.")

    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(self.column, pa.string())])

    def decode(self, values: pa.Array) -> Decoded:
        kept, origin = present(values)
        texts, errors = utf8(kept, self.encoding)
        done = assemble(texts, errors, origin, self.schema(), len(values))
        if not self.lines:
            return done
        split, parents = lines_of(done.rows.column(0))
        rows = pa.RecordBatch.from_arrays([split], schema=self.schema())
        return under(done, Decoded(rows), parents)

    def encode(self, rows: pa.RecordBatch) -> Encoded:
        texts = rows.column(self.column).cast(pa.string())
        name = codecs.lookup(self.encoding).name
        if name == "utf-8":
            return Encoded(texts.cast(pa.binary()))
        values: list[bytes | None] = []
        errors = []
        for row, text in enumerate(texts.to_pylist()):
            try:
                values.append(None if text is None else text.encode(name))
            except UnicodeEncodeError as error:
                values.append(None)
                said = f"the text has a character that {name} lacks, at index {error.start}"
                errors.append(RowError(row=row, message=said))
        return Encoded(pa.array(values, pa.binary()), tuple(errors))


def utf8(values: pa.Array, encoding: str = "utf-8") -> tuple[list[pa.RecordBatch], list[RowError]]:
    """Bytes without nulls as valid text in runs of good rows (one column), and the bad rows."""
    name = codecs.lookup(encoding).name

    def attempt(start: int, stop: int) -> pa.RecordBatch:
        part = values.slice(start, stop - start)
        if name == "ascii" and not pc.all(pc.string_is_ascii(part.cast(pa.string()))).as_py():
            raise pa.ArrowInvalid("a byte above 127")
        if name in _PLAIN:
            text = part.cast(pa.string())
        else:
            text = pa.array([_decoded(each, name) for each in part.to_pylist()], pa.string())
        return pa.RecordBatch.from_arrays([text], names=["text"])

    return isolate(len(values), attempt, lambda _row, _error: f"the bytes are not valid {name}")


def is_utf8(text: bytes) -> bool:
    """Whether it is valid as a whole."""
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decoded(value: bytes, name: str) -> str:
    try:
        text = value.decode(name)
        text.encode("utf-8")
    except UnicodeError as error:
        raise pa.ArrowInvalid(str(error.reason if hasattr(error, "reason") else error)) from None
    return text
