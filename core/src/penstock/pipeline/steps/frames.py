"""Steps that are Spark's: expressions, frames, state. They get and give DataFrames.

Nothing here imports pyspark: a DataFrame is whatever is handed in. Rows whose `_pen.error` is
set are on their way to the dead letters and pass every one of these steps unchanged.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

import pyarrow as pa

from penstock.contracts import Columns, Type, connector, option
from penstock.contracts.errors import OptionError, SchemaError
from penstock.contracts.transform import Grain
from penstock.pipeline.expressions import GENERATORS, called, changing
from penstock.pipeline.functions import Function
from penstock.pipeline.shapes import EVENT_TIME, columns_of
from penstock.pipeline.steps.columns import need
from penstock.pipeline.steps.step import Step

FAILED = "_pen.error IS NOT NULL"
_WATERMARK = "spark.watermarkDelayMs"
_NAME = re.compile(r"^\s*`?([A-Za-z_]\w*)`?\s*$")
_MADE = re.compile(r"\sas\s+`?([A-Za-z_]\w*)`?\s*$", re.IGNORECASE)
_ALIAS = re.compile(r"^\s*`?([A-Za-z_]\w*)`?\s+(?:as\s+)?`?([A-Za-z_]\w*)`?\s*$", re.IGNORECASE)


class FrameStep(Step):
    """A step that Spark runs."""

    grain: Grain = "frame"


@connector
class Where(FrameStep):
    """Keep the rows for which a Spark SQL expression is true."""

    main: ClassVar[str | None] = "expression"
    verbatim: ClassVar[bool] = True

    expression: str = option(doc="A Spark SQL expression.", example="total > 100")

    @property
    def deterministic(self) -> bool:  # type: ignore[override]
        """Unless it asks a clock, or chance."""
        return not changing(self.expression)

    def apply(self, data: Any) -> Any:
        """Spark's own filter."""
        return data.where(f"({self.expression}) OR {FAILED}")


@connector
class Select(FrameStep):
    """Compute columns with Spark SQL expressions; `event_time` is kept."""

    main: ClassVar[str | None] = "columns"

    columns: list[str] = option(
        doc="Spark SQL expressions.", example='["id", "total * 2 AS twice"]'
    )

    def settle(self) -> None:
        """Refuse what makes several rows of one: a failed row would become none, or two."""
        several = sorted({name for text in self.columns for name in called(text) & GENERATORS})
        if several:
            raise OptionError(
                f"select makes one row of each, and {', '.join(several)} makes others",
                expected="expressions that give one value",
                fix="use the step explode, and take the element apart in a select after it; or "
                "do it in an apply step",
            )

    @property
    def deterministic(self) -> bool:  # type: ignore[override]
        """Unless it asks a clock, or chance."""
        return not changing(*self.columns)

    def gives(self, input: Type) -> Type:
        """Known where all are plain columns or `*`; else Spark will tell."""
        schema = self.named(input)
        known = schema is not None and not any(pa.types.is_null(f.type) for f in schema)
        return Columns(schema if known else None)

    def named(self, input: Type) -> pa.Schema | None:
        """The columns by name, null for a type that Spark will tell; None: nor are the names."""
        schema = columns_of(input)
        if schema is None:
            return None
        fields: list[pa.Field] = []
        for text in self.columns:
            if text.strip() == "*":
                fields.extend(schema)
                continue
            plain = _NAME.match(text)
            alias = None if plain else _ALIAS.match(text)
            made = None if plain or alias else _MADE.search(text)
            if made:
                fields.append(pa.field(made[1], pa.null()))
                continue
            if not plain and not alias:
                return None
            name, new = (plain[1], plain[1]) if plain else (alias[1], alias[2])  # type: ignore[index]
            fields.append(need(schema, name, "select").with_name(new))
        names = [f.name for f in fields]
        _each_once(names)
        if "event_time" not in names:
            fields.append(EVENT_TIME)
        return pa.schema(fields)

    def apply(self, data: Any) -> Any:
        """Spark's own projection, with what Penstock keeps beside; `*` does not hold `_pen`."""
        kept = "_pen AS _pen_kept"
        made = data.selectExpr(*self.columns, kept).drop("_pen")
        _each_once(made.columns)
        if "event_time" not in made.columns:
            made = data.selectExpr(*self.columns, "event_time", kept).drop("_pen")
        return made.withColumnRenamed("_pen_kept", "_pen")


def _each_once(names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaError(
            f"select gives two columns the name {', '.join(twice)}",
            expected="each name once",
            fix="name the columns instead of *, or use * EXCEPT (...)",
        )


@connector
class Apply(FrameStep):
    """A function over a DataFrame."""

    main: ClassVar[str | None] = "function"
    rereads: ClassVar[bool] = True

    function: Function = option(
        doc="Gets a DataFrame, returns one; it must keep the column `_pen`."
    )
    schema: str | None = option(
        default=None, doc="The columns it returns, if a later step must know them at analysis."
    )
    deterministic: bool = option(
        default=False, doc="True if the same rows always give the same result."
    )

    def gives(self, input: Type) -> Type:
        """As declared, else only Spark knows."""
        if self.schema is None:
            return Columns(None)
        from penstock.coders.ddl import parse_ddl
        from penstock.pipeline.shapes import with_event_time

        return Columns(with_event_time(parse_ddl(self.schema)))

    def apply(self, data: Any) -> Any:
        """On the rows that did not fail; those that did are put beside again."""
        return past_failed(data, self.function.load(), self.function.name)


@connector
class OnFrame(FrameStep):
    """An installed transform over a DataFrame, with failed rows kept out of its sight."""

    rereads: ClassVar[bool] = True

    transform: Any = option(doc="The transform.")

    @property
    def deterministic(self) -> bool:  # type: ignore[override]
        """As the transform says."""
        return bool(self.transform.deterministic)

    def wants(self) -> Type:
        """As the transform says."""
        return self.transform.wants()  # type: ignore[no-any-return]

    def gives(self, input: Type) -> Type:
        """As the transform says."""
        return self.transform.gives(input)  # type: ignore[no-any-return]

    def apply(self, data: Any) -> Any:
        """On the rows that did not fail."""
        return past_failed(data, self.transform.apply, type(self.transform).__name__)


def past_failed(data: Any, function: Any, name: str) -> Any:
    """The function's result over healthy rows, and the failed rows with it.

    Raises:
        SchemaError: the function lost `_pen`.
    """
    made = function(data.where("_pen.error IS NULL"))
    if "_pen" not in made.columns:
        raise SchemaError(
            f"the function {name} lost the column _pen",
            expected="a DataFrame that still has it",
            got=", ".join(made.columns),
            fix='keep "_pen" in what it selects',
        )
    if "event_time" not in made.columns:
        made = made.selectExpr("*", "CAST(NULL AS TIMESTAMP) AS event_time")
    failed = data.where(FAILED).select("_pen")
    return made.unionByName(failed, allowMissingColumns=True)


@connector
class Watermark(FrameStep):
    """How late records may come; steps that keep state forget what is older."""

    main: ClassVar[str | None] = "delay"
    stateful: ClassVar[bool] = True
    verbatim: ClassVar[bool] = True

    delay: str = option(doc="How much older than the newest a record may be.", example="10 minutes")

    def apply(self, data: Any) -> Any:
        """Spark's own watermark over `event_time`."""
        return data.withWatermark("event_time", self.delay)


@connector
class Deduplicate(FrameStep):
    """Let each id pass once within a horizon, on Spark's state store."""

    main: ClassVar[str | None] = "by"
    stateful: ClassVar[bool] = True
    scatters: ClassVar[bool] = True
    verbatim: ClassVar[bool] = True
    # A row without an id gets one by chance, and with it its place among the tasks.
    deterministic = False

    by: list[str] | None = option(
        default=None,
        doc="Columns that make up the id; `header:NAME` takes a header. By default the record's "
        "own id.",
    )
    horizon: str = option(
        default="1 hour",
        doc="How long an id is remembered, in event time; a copy later than that passes. A "
        "watermark step right before decides instead.",
    )

    def settle(self) -> None:
        """Names that can stand in an expression."""
        for name in self.by or ():
            if "`" in name or "'" in name:
                raise OptionError("deduplicate cannot use this name", got=name)

    def gives(self, input: Type) -> Type:
        """The same rows."""
        schema = columns_of(input)
        if schema is not None:
            for name in self.by or ():
                if not name.startswith("header:"):
                    need(schema, name, "deduplicate")
        return input

    def key(self) -> str:
        """The id as a Spark expression; failed rows and rows without an id are all different."""
        parts = [_part(name) for name in self.by] if self.by else ["_pen.id"]
        whole = f"to_json(struct({', '.join(f'{p} AS k{i}' for i, p in enumerate(parts))}))"
        absent = " AND ".join(f"{part} IS NULL" for part in parts)
        return f"CASE WHEN {FAILED} OR ({absent}) THEN concat('?', uuid()) ELSE {whole} END"

    def apply(self, data: Any) -> Any:
        """Spark drops what it has seen within the watermark."""
        # Spark refuses a second watermark over a column that still has its first.
        known = data.schema["event_time"].metadata or {}
        marked = data if _WATERMARK in known else data.withWatermark("event_time", self.horizon)
        keyed = marked.selectExpr("*", f"{self.key()} AS _pen_dedup")
        return keyed.dropDuplicatesWithinWatermark(["_pen_dedup"]).drop("_pen_dedup")


def _part(name: str) -> str:
    if name.startswith("header:"):
        header = name.removeprefix("header:")
        return f"filter(_pen.headers, h -> h.key = '{header}')[0].value"
    return f"`{name}`"
