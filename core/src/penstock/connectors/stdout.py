"""Prints records where the task runs; `on="driver"` in a pipeline brings them to one place."""

from __future__ import annotations

import base64
import json
import sys
from datetime import date, datetime
from typing import Any, Literal

import pyarrow as pa

from penstock.contracts import Batch, Promise, Receipt, Sink, Writer, at_least, option
from penstock.contracts import connector as configured
from penstock.contracts.envelope import spark_form


@configured
class StdoutSink(Sink):
    """Standard output: one line per record."""

    format: Literal["auto", "json", "text"] = option(
        default="auto",
        doc="`text` prints `value` as it is, `json` all columns; `auto` takes text where the "
        "only column is `value`.",
    )
    limit: int | None = option(
        default=None, doc="Print at most so many records of a task's share.", check=at_least(0)
    )
    meta: bool = option(default=False, doc="Print the `_pen` column too.")

    def promise(self) -> Promise:
        """A line once printed cannot be taken back."""
        return Promise(replay="append", atomic="record")

    def accepts(self, schema: pa.Schema) -> pa.Schema:
        """All columns of types that Spark has."""
        return spark_form(schema)

    def refuses(self) -> bool:
        """Anything can be printed."""
        return False

    def open(self, batch: Batch, partition: int, attempt: int, schema: pa.Schema) -> StdoutWriter:
        """Print to the standard output of this process."""
        return StdoutWriter(self)


class StdoutWriter(Writer):
    """Prints as rows come."""

    def __init__(self, sink: StdoutSink) -> None:
        self._sink = sink
        self._rows = 0
        self._printed = 0

    def write(self, rows: pa.RecordBatch) -> None:
        """Print, within the limit."""
        self._rows += rows.num_rows
        room = rows.num_rows
        if self._sink.limit is not None:
            room = min(room, self._sink.limit - self._printed)
        if room > 0:
            self._printed += room
            out = "".join(line + "\n" for line in lines(rows.slice(0, room), self._sink))
            sys.stdout.write(out)

    def close(self) -> Receipt:
        """Flush."""
        sys.stdout.flush()
        return Receipt(rows=self._rows)

    def abort(self) -> None:
        """What is printed stays."""
        sys.stdout.flush()


def lines(rows: pa.RecordBatch, sink: StdoutSink) -> list[str]:
    """The records as lines of text."""
    names = [n for n in rows.schema.names if n != "_pen" or sink.meta]
    envelope_only = not set(names) - {"key", "value", "headers", "event_time", "id", "stamp"}
    if sink.format == "text" or (sink.format == "auto" and "value" in names and envelope_only):
        return [_plain(value) for value in rows.column("value").to_pylist()]
    return [
        json.dumps(record, default=_jsonable, ensure_ascii=False)
        for record in rows.select(names).to_pylist()
    ]


def _plain(value: Any) -> str:
    if value is None:
        return ""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _jsonable(value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value)
