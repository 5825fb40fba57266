"""CSV: a record per message, or a whole file of them."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from penstock.coders.csvwrite import write_rows
from penstock.coders.groups import encoded
from penstock.coders.isolate import Suspect, isolate
from penstock.coders.json import one_schema, sample_bytes
from penstock.coders.jsonread import settle
from penstock.coders.parts import assemble, bytes_of, empty, present, under
from penstock.coders.pieces import joined
from penstock.coders.schema import only, parse_schema
from penstock.coders.text import is_utf8, utf8
from penstock.contracts.coder import Coder, Decoded, Encoded, RowError
from penstock.contracts.errors import CodecError, OptionError, SchemaError
from penstock.contracts.options import connector, one_character, option

_MARK = "\ufeff"
_COUNT = re.compile(r"Expected (\d+) columns, got (\d+)")
_COLUMN = re.compile(r"In CSV column #(\d+)")
_ROW = re.compile(r"Row #(\d+)")


@connector
class CsvCoder(Coder):
    """CSV text after RFC 4180: one record in each message, or a file of them.

    Columns go by place. An empty field without quotes is null, `""` is an empty text. Times are
    ISO 8601, bytes are base64.
    """

    _schema: Any = option(
        default=None,
        doc="Columns, in the order of the fields: Spark DDL, an Arrow schema, a class, ...",
        example="id BIGINT, name STRING",
    )
    sample: str | None = option(
        default=None, doc="CSV file with a header line, to infer the schema from."
    )
    delimiter: str = option(default=",", doc="Between fields.", check=one_character)
    quote: str = option(default='"', doc="Around fields; doubled within.", check=one_character)
    null: str = option(default="", doc="A field without quotes that means null.")
    layout: Literal["record", "lines"] = option(
        default="record", doc="What a message holds: one record, or a record per line."
    )
    header: bool = option(
        default=False,
        doc="With layout=lines: the first line of each message names the columns, in any order.",
    )
    only: tuple[str, ...] | None = attrs.field(default=None, kw_only=True)

    def settle(self) -> None:
        one_schema("csv", self._schema, self.sample)
        if self.header and self.layout != "lines":
            raise OptionError("header has a meaning only with layout=lines")
        if self.delimiter == self.quote or "\n" in self.delimiter + self.quote:
            raise OptionError("delimiter and quote must differ, and neither be a line end")

    def schema(self) -> pa.Schema:
        return only(self._whole(), self.only)

    def _whole(self) -> pa.Schema:
        return _flat(parse_schema(self._schema)) if self.inferred is None else self.inferred

    @cached_property
    def inferred(self) -> pa.Schema | None:
        """The sample's schema. Pickled: a worker need not have the file."""
        if self.sample is None:
            return None
        return _inferred(self.sample, self.delimiter, self.quote)

    def narrowed(self, columns: Sequence[str]) -> CsvCoder:
        whole: Any = self
        made: CsvCoder = attrs.evolve(whole, only=tuple(columns))
        made.__dict__["inferred"] = self.inferred
        return made

    def decode(self, values: pa.Array) -> Decoded:
        kept, rows = present(values)
        texts, errors = utf8(kept)
        valid = assemble(texts, errors, rows, pa.schema([("text", pa.string())]), len(values))
        text = valid.rows.column(0)
        if pc.any(pc.starts_with(text, _MARK)).as_py():
            text = pc.utf8_ltrim(text, _MARK)
        if self.layout == "record" and pc.any(pc.match_substring_regex(text, r"[\r\n]\z")).as_py():
            text = pc.utf8_rtrim(text, "\r\n")
        text = text.cast(pa.binary())
        if self.layout == "lines":
            return self._files(valid, text)
        runs, bad = isolate(len(text), lambda a, b: self._records(text.slice(a, b - a)), self._said)
        return under(valid, assemble(runs, bad, None, self.schema(), len(text)))

    def encode(self, rows: pa.RecordBatch) -> Encoded:
        return encoded(rows, self._whole(), self._written)

    def _written(self, rows: pa.RecordBatch) -> Encoded:
        values = write_rows(rows, self.delimiter, self.quote, self.null)
        if self.header:
            names = rows.schema.names
            named = pa.RecordBatch.from_arrays([pa.array([name]) for name in names], names=names)
            head = write_rows(named, self.delimiter, self.quote, self.null)[0].as_py()
            values = joined(head + b"\n", values, b"\n")
        return Encoded(values)

    def lines(self, text: bytes, ends: np.ndarray) -> pa.RecordBatch:
        """The records of whole lines (each ends before one of `ends`), at once: row i is line i.

        Faster than `decode`, which sees every record apart and is to be asked when this fails.

        Raises:
            CodecError, pa.ArrowInvalid: some line is not one good record.
        """
        # Every row ends at a line end outside quotes, so as many rows as lines means one each: but
        # for a lone \r, which ends a row too, and the last row, which the text's end may end. A
        # line of nulls follows it.
        if b"\r" in text or _MARK.encode() in text or not is_utf8(text):
            raise CodecError("the lines are to be seen one by one")
        names = self._whole().names
        nulls = self.delimiter.join([self.null] * len(names)).encode() + b"\n"
        rows = self._settled(self._table(pa.py_buffer(text + nulls), names))
        if rows.num_rows != len(ends) + 1:
            raise CodecError("a quote is not closed")
        return rows.slice(0, len(ends))

    def _records(self, values: pa.Array) -> pa.RecordBatch:
        """Columns of values that hold one record each.

        A last field that nobody can guess follows each record. If every row ends in it, and there
        are as many rows as values, no quote or line end has moved a field to a neighbour.
        """
        guard = secrets.token_hex(8)
        text = joined(values, f"{self.delimiter}{guard}\n".encode())
        names = [*self._whole().names, "\0guard"]
        table = self._table(text.buffers()[2].slice(0, int(bytes_of(text)[1][-1])), names)
        found = table.column("\0guard")
        # An empty line has null for a guard, and no null is unequal.
        kept = found.null_count == 0 and pc.all(pc.equal(found, guard)).as_py()
        if table.num_rows != len(values) or not kept:
            raise CodecError("a quote is not closed, or there is more than one record")
        return self._settled(table)

    def _files(self, valid: Decoded, values: pa.Array) -> Decoded:
        done: list[pa.RecordBatch] = []
        parents: list[int] = []
        errors = []
        for row, value in enumerate(values):
            try:
                part = self._settled(self._file(value.as_buffer()))
            except (pa.ArrowInvalid, pa.ArrowKeyError, CodecError) as error:
                errors.append(RowError(row=row, message=self._said(row, error)))
                continue
            done.append(part)
            parents += [row] * part.num_rows
        whole = assemble(done, (), None, self.schema(), len(parents))
        return under(valid, whole, pa.array(parents, pa.int32()), errors)

    def _file(self, data: pa.Buffer) -> pa.Table:
        if not data.to_pybytes().strip():
            return pa.Table.from_batches([empty(self.schema())])
        table = self._table(data, None if self.header else self._whole().names)
        missing = [n for n in self.schema().names if n not in table.column_names]
        if missing:
            raise CodecError(f"the header lacks the column {missing[0]}")
        return table

    def _table(self, data: pa.Buffer, names: list[str] | None) -> pa.Table:
        kinds = {f.name: _wire(f.type) for f in self._whole()}
        wanted = None if names is None else [n for n in names if n in self.schema().names]
        if names is not None and "\0guard" in names:
            wanted = [*(wanted or []), "\0guard"]
        try:
            return pcsv.read_csv(
                pa.BufferReader(data),
                read_options=pcsv.ReadOptions(
                    use_threads=False, block_size=data.size + 1, column_names=names
                ),
                parse_options=pcsv.ParseOptions(
                    delimiter=self.delimiter,
                    quote_char=self.quote,
                    newlines_in_values=True,
                    ignore_empty_lines=names is None,
                ),
                convert_options=pcsv.ConvertOptions(
                    check_utf8=False,
                    column_types={**kinds, "\0guard": pa.string()},
                    null_values=[self.null],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    include_columns=wanted,
                ),
            )
        except pa.ArrowInvalid as error:
            at = _ROW.search(str(error))
            if at is not None and names is not None:
                raise Suspect(self._said(0, error), int(at[1]) - 1) from None
            raise

    def _settled(self, table: pa.Table) -> pa.RecordBatch:
        schema = self.schema()
        columns = [settle(table.column(f.name).combine_chunks(), f.type) for f in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _said(self, _row: int, error: BaseException) -> str:
        if isinstance(error, CodecError):
            return error.message
        text = str(error)
        if found := _COUNT.search(text):
            guard = 1 if self.layout == "record" else 0
            return f"it has {int(found[2]) - guard} fields, not {int(found[1]) - guard}"
        if found := _COLUMN.search(text):
            names = self._whole()
            if int(found[1]) < len(names):
                field = names.field(int(found[1]))
                return f"the field {field.name} is no {field.type}"
        return "a field does not fit its column's type"


def _wire(kind: pa.DataType) -> pa.DataType:
    text = pa.types.is_timestamp(kind) or pa.types.is_binary(kind) or pa.types.is_null(kind)
    return pa.string() if text or pa.types.is_fixed_size_binary(kind) else kind


def _flat(schema: pa.Schema) -> pa.Schema:
    for field in schema:
        if pa.types.is_nested(field.type):
            raise SchemaError(
                f"the column {field.name} is nested, and CSV is flat",
                expected="plain types",
                got=str(field.type),
                fix="read it as STRING and decode that column as JSON",
            )
    return schema


def _inferred(path: str, delimiter: str, quote: str) -> pa.Schema:
    data = pa.BufferReader(sample_bytes(path))
    parse = pcsv.ParseOptions(delimiter=delimiter, quote_char=quote, newlines_in_values=True)
    try:
        return parse_schema(pcsv.read_csv(data, parse_options=parse).schema)
    except pa.ArrowInvalid as error:
        raise SchemaError(f"no schema can be inferred from {path}: {error}") from None
