"""The steps of the fluent form, one method each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.pipeline.declare import Flow


class Verbs:
    """A method for each built-in step. All take `name`, `parallelism` and `on_error` too."""

    @abstractmethod
    def step(self, what: str, main: Any = None, **options: Any) -> Flow:
        """Any step by name."""

    def decode(self, coder: str, **options: Any) -> Flow:
        """Turn `value` into columns with a coder and its options."""
        return self._coding("decode", coder, options)

    def encode(self, coder: str, **options: Any) -> Flow:
        """Turn the columns into one `value` with a coder and its options."""
        return self._coding("encode", coder, options)

    def _coding(self, what: str, coder: str, options: dict[str, Any]) -> Flow:
        common = {n: options.pop(n) for n in ("name", "parallelism", "on_error") if n in options}
        given = {"options": options} if options else {}
        return self.step(what, None, coder=coder, **given, **common)

    def map(self, function: Any, **options: Any) -> Flow:
        """A function of a record to a record."""
        return self.step("map", function, **options)

    def filter(self, function: Any, **options: Any) -> Flow:
        """Keep the records for which a function is true."""
        return self.step("filter", function, **options)

    def flat_map(self, function: Any, **options: Any) -> Flow:
        """A function of a record to several."""
        return self.step("flat_map", function, **options)

    def concurrent_map(self, function: Any, **options: Any) -> Flow:
        """A function that waits on I/O, on several records at once, in order by key."""
        return self.step("concurrent_map", function, **options)

    def map_batches(self, function: Any, **options: Any) -> Flow:
        """A function of an Arrow batch to an Arrow batch."""
        return self.step("map_batches", function, **options)

    def apply(self, function: Any, **options: Any) -> Flow:
        """A function of a DataFrame to a DataFrame."""
        return self.step("apply", function, **options)

    def where(self, expression: str, **options: Any) -> Flow:
        """Keep the rows for which a Spark expression is true."""
        return self.step("where", expression, **options)

    def select(self, *columns: str, **options: Any) -> Flow:
        """Compute columns with Spark expressions."""
        return self.step("select", list(columns), **options)

    def explode(self, column: str, **options: Any) -> Flow:
        """One row for each element of a list column."""
        return self.step("explode", column, **options)

    def key_by(self, *columns: Any, **options: Any) -> Flow:
        """Columns, or a function of a record, as the key: equal keys meet."""
        if len(columns) == 1 and callable(columns[0]):
            return self.step("key_by", None, function=columns[0], **options)
        return self.step("key_by", list(columns), **options)

    def rename(self, columns: Mapping[str, str] | None = None, **options: Any) -> Flow:
        """Other names for columns: `{"old": "new"}`."""
        return self.step("rename", None, columns=dict(columns or {}), **options)

    def cast(self, columns: Mapping[str, str] | None = None, **options: Any) -> Flow:
        """Other types for columns: `{"total": "double"}`."""
        return self.step("cast", None, columns=dict(columns or {}), **options)

    def validate(self, function: Any = None, **options: Any) -> Flow:
        """Let pass what keeps the rules; the rest becomes dead letters."""
        return self.step("validate", function, **options)

    def sample(self, fraction: float, **options: Any) -> Flow:
        """Keep a fraction, chosen by stamp."""
        return self.step("sample", fraction, **options)

    def peek(self, function: Any = None, **options: Any) -> Flow:
        """Look at records as they pass."""
        return self.step("peek", function, **options)

    def deduplicate(self, *by: str, **options: Any) -> Flow:
        """Let each id pass once within a horizon."""
        return self.step("deduplicate", list(by) or None, **options)

    def event_time(self, field: str, *, watermark: str | None = None, **options: Any) -> Flow:
        """Take the event time from a column; with `watermark`, say how late records may come."""
        timed = self.step("event_time", field, **options)
        return timed if watermark is None else timed.watermark(watermark)

    def watermark(self, delay: str, **options: Any) -> Flow:
        """How late records may come."""
        return self.step("watermark", delay, **options)
