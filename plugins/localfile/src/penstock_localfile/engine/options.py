"""Options that every connector for files has, and what they make."""

from __future__ import annotations

from typing import Any, Literal

from penstock.contracts import Configured, at_least, connector, option
from penstock.contracts.errors import OptionError, SchemaError
from penstock.contracts.options import one_character
from penstock_localfile.engine.afterwards import Action, Afterwards
from penstock_localfile.engine.compression import Compression, Expanding
from penstock_localfile.engine.discovery import Changed, Discovery, Order, Rules
from penstock_localfile.engine.formats.base import Format
from penstock_localfile.engine.formats.plain import LinesFormat, TextLinesFormat, WholeFormat
from penstock_localfile.engine.ledger import Ledger
from penstock_localfile.engine.names import matcher
from penstock_localfile.engine.parts import Packing
from penstock_localfile.engine.planner import FilePlanner
from penstock_localfile.engine.storage import Storage

FormatName = Literal["lines", "text", "whole", "csv", "json", "parquet", "avro", "xml"]


@connector
class FileOptions(Configured):
    """The options of a source of files, without those that say where they are."""

    format: FormatName = option(
        default="lines",
        doc="`lines` and `whole` give bytes, `xml` gives elements as bytes; `text` gives lines as "
        "text; `csv`, `json`, `parquet` and `avro` give columns.",
    )
    _schema: Any = option(
        default=None,
        doc="Columns of csv, json, parquet and avro; learned from the first file if not "
        "given, which only after=keep allows.",
        example="id BIGINT, name STRING",
    )
    recursive: bool = option(default=False, doc="Look into the folders below, too.")
    hidden: bool = option(default=False, doc="Take names that begin with `.` or `_`, too.")
    min_age: float = option(
        default=0.0,
        unit="seconds",
        check=at_least(0),
        doc="Leave a file alone until its last change is so long ago.",
    )
    stable: float = option(
        default=0.0,
        unit="seconds",
        check=at_least(0),
        doc="Leave a file alone until its size and time have stayed the same for so long.",
    )
    marker: str = option(
        default="",
        doc="Leave a file alone until a file named like it plus this suffix is there.",
        example=".done",
    )
    order: Order = option(
        default="time", doc="Take files in the order of their modification `time`, or by `name`."
    )
    changed: Changed = option(
        default="error",
        doc="When a file that was already taken has other content: `error`, `ignore`, or "
        "`reprocess` it as a new version.",
    )
    after: Action = option(
        default="keep",
        doc="When every sink has a file's records: `keep`, `delete`, `archive` or `rename` it.",
    )
    archive: str = option(
        default=".archive", doc="The folder for after=archive, absolute or below the root."
    )
    suffix: str = option(default=".done", doc="Added to the name by after=rename.")
    compression: Compression = option(
        default="auto", doc="How files are compressed; `auto` goes by .gz, .zst, .bz2, .zip."
    )
    members: str = option(
        default="", doc="Which members of a zip file to read, as a glob.", example="*.csv"
    )
    max_expansion: float = option(
        default=200.0,
        check=at_least(1),
        doc="A compressed file may grow to so many times its size (64 MiB are always allowed).",
    )
    utf8: Literal["check", "trust"] = option(
        default="check",
        doc="text: a line that is not UTF-8 is a bad record; or, with `trust`, is passed on as it "
        "is, as Spark's own text source does.",
    )
    header: bool = option(default=True, doc="csv: the first line of each file names the columns.")
    delimiter: str = option(default=",", doc="csv: between fields.", check=one_character)
    quote: str = option(default='"', doc="csv: around fields.", check=one_character)
    null: str = option(default="", doc="csv: a field without quotes that means null.")
    layout: Literal["lines", "document"] = option(
        default="lines",
        doc="csv and json: a record per `line`; or the whole file at once, as a `document`: a "
        "JSON array, a CSV file whose quoted fields hold line ends.",
    )
    row: str = option(
        default="/*/*", doc="xml: which elements are rows.", example="//order[@total > 100]"
    )
    namespaces: dict[str, str] = option(factory=dict, doc="xml: prefixes used in `row`.")
    broken: Literal["stop", "pass"] = option(
        default="stop",
        doc="whole: a compressed file that cannot be expanded is an error and stops the query, or "
        "is passed on as it came with the reason in the header `error`, which format=files "
        "takes for a bad file. So is one above max_record_bytes, without its content; with "
        "after=delete, which would lose it, it stops the query.",
    )
    metadata: bool = option(
        default=False,
        doc="whole: tell in headers what the system keeps beside a file, too: permission bits "
        "(`mode`), an object's own metadata (`meta.` and its name).",
    )
    split_bytes: int = option(
        default=64 << 20,
        unit="bytes",
        check=at_least(1),
        doc="Read larger files in ranges of this size at once, where the format allows it.",
    )
    parts: int = option(
        default=8,
        check=at_least(1),
        doc="Aim for so many tasks a batch, if there is enough to read.",
    )
    max_record_bytes: int = option(
        default=64 << 20,
        unit="bytes",
        check=at_least(1),
        doc="A longer record, or a larger file that is read as one, is an error.",
    )

    def settle(self) -> None:
        """Refuse what contradicts itself."""
        matcher(self.members)
        if self._schema is not None and self.format in ("lines", "text", "whole", "xml"):
            given = "text" if self.format == "text" else "bytes"
            raise OptionError(
                f"format={self.format} gives {given} and takes no schema",
                fix="drop schema, or choose csv, json, parquet or avro",
            )
        if self.format == "xml":
            from penstock_localfile.engine.formats.xml import RowPath

            path = RowPath.parse(self.row)
            path.pattern(self.namespaces)
            path.test(self.namespaces)
        if self.after != "keep" and self.file_format().learns():
            raise OptionError(
                f"after={self.after} takes away the file that the schema would be learned from, "
                "and a restart would learn another one or none",
                expected="schema, or after=keep",
                fix='schema="id BIGINT, name STRING"',
            )
        if self.after == "rename" and not self.suffix:
            raise OptionError("after=rename needs a suffix", fix='suffix=".done"')
        if self.after == "rename" and self.suffix == self.marker:
            raise OptionError(
                "a file renamed after reading would be the marker of the next one of its name",
                expected="another suffix than marker",
                got=f"marker={self.marker}, after=rename, suffix={self.suffix}",
                fix='suffix=".read"',
            )
        if self.delimiter == self.quote:
            raise OptionError("delimiter and quote must differ", got=self.quote)

    def file_format(self, learned: str = "") -> Format:
        """The format with its settings."""
        expanding = Expanding(self.compression, self.max_expansion, self.members)
        common: tuple[Any, ...] = (expanding, self.max_record_bytes, learned)
        lines = self.layout == "lines"
        if self.format == "csv":
            from penstock_localfile.engine.formats.text import CsvFormat

            names = ("delimiter", "quote", "null")
            settings = tuple((name, getattr(self, name)) for name in names)
            return CsvFormat(*common, self._schema, lines, self.header, settings)
        if self.format == "json":
            from penstock_localfile.engine.formats.text import JsonFormat

            return JsonFormat(*common, self._schema, lines)
        if self.format == "parquet":
            from penstock_localfile.engine.formats.parquet import ParquetFormat

            return ParquetFormat(*common, self._schema)
        if self.format == "avro":
            from penstock_localfile.engine.formats.avro import AvroFormat

            return AvroFormat(*common, self._schema)
        if self.format == "xml":
            from penstock_localfile.engine.formats.xml import XmlFormat

            return XmlFormat(*common, self.row, dict(self.namespaces))
        if self.format == "whole":
            stays = self.after != "delete"
            return WholeFormat(*common, self.metadata, self.broken == "pass", stays)
        if self.format == "text":
            return TextLinesFormat(*common, trusted=self.utf8 == "trust")
        return LinesFormat(*common)

    def rules(self, storage: Storage, pattern: str, *, named: bool = False) -> Rules:
        """What makes a file ready; `named`: the user named one file."""
        archive = storage.below(self.archive) if self.after == "archive" else None
        if archive == ".":
            raise OptionError(
                "the archive is the folder that is read",
                expected="another folder, or one below it",
                got=f"archive={self.archive}",
            )
        return Rules(
            pattern=pattern,
            recursive=self.recursive,
            hidden=self.hidden or named,
            min_age=self.min_age,
            marker=self.marker,
            stable=self.stable,
            order=self.order,
            changed=self.changed,
            below=archive or "",
            ending=self.suffix if self.after == "rename" else "",
        )

    def learned(self, storage: Storage, rules: Rules) -> str:
        """What the first file teaches about the schema; empty where that is not needed.

        Raises:
            SchemaError: there is no file yet.
        """
        form = self.file_format()
        if not form.learns():
            return ""
        ledger = Ledger(None, storage.origin)
        try:
            Discovery(storage, rules, ledger).look()
            first = next(ledger.from_on(0), None)
        finally:
            ledger.close()
        if first is None:
            raise SchemaError(
                "no schema is given, and there is no file to learn it from",
                got=storage.origin,
                fix='give one: schema="id BIGINT, name STRING"',
            )
        return form.learn(storage, first)

    def file_planner(self, storage: Storage, rules: Rules, state: str | None) -> FilePlanner:
        """The planner over a storage."""
        form = self.file_format()
        # Elsewhere each range would copy the whole file, or what lies before it.
        seeks = storage.seeks and (storage.cheap_reads or not form.walks)
        ranged = form.by_lines or seeks
        divides = form.divides if ranged else (lambda path: False)
        return FilePlanner(
            storage,
            rules,
            Packing(split=self.split_bytes, parts=self.parts, divides=divides),
            form.cutting(),
            state,
            Afterwards(self.after, self.archive, self.suffix, self.marker),
            (lambda: self.learned(storage, rules)) if form.learns() else None,
        )
