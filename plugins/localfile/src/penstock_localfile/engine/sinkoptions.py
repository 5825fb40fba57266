"""Options that every sink of files has, and what they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from penstock.contracts import Batch, Configured, Writer, at_least, connector, option
from penstock.contracts.errors import OptionError
from penstock.contracts.options import one_character
from penstock_localfile.engine.packed import Packed

if TYPE_CHECKING:
    from penstock_localfile.engine.encodings import Encoding
    from penstock_localfile.engine.forafile import Conversion
    from penstock_localfile.engine.publishing import Publisher
    from penstock_localfile.engine.routing import Layout

# Listing what is installed loads this module: what writes is imported where it is used.
_NAME = "part-{batch:08d}-{partition:05d}-{roll:03d}-{id}"


def xml_name(text: str) -> str | None:
    """A check."""
    plain = text.isascii() and text.replace("-", "_").replace(".", "_").isidentifier()
    return None if plain and text[0] not in "-." else "must be an XML name of ASCII characters"


@connector
class FileSinkOptions(Configured):
    """The options of a sink of files, without those that say where they go."""

    format: Literal["lines", "csv", "json", "parquet", "avro", "xml", "files"] = option(
        default="lines",
        doc="`lines`: a line per row of one column; `csv`, `json`, `parquet`, `avro`: all "
        "columns; `xml`: an element per row, of all columns or as it is in a binary `value`; "
        "`files`: each row is a whole file, named by its key (file for a file).",
    )
    compression: Packed = option(default="none", doc="Compress files; the suffix tells.")
    file_name: str | None = option(
        default=None,
        doc="Template of a file's name: `{batch}`, `{partition}`, `{roll}`, `{id}` (query and "
        "node), `{query}`, `{node}`; with format=files `{path}`, `{folder}`, `{name}`, "
        "`{stem}`, `{ext}` of the input.",
        example="{folder}{stem}.out{ext}",
    )
    partition_by: list[str] = option(
        factory=list, doc="Columns that name folders (`country=de/`) instead of being written."
    )
    bucket_by: list[str] = option(
        factory=list, doc="Columns whose hash names a folder (`bucket=00003/`)."
    )
    buckets: int = option(default=0, check=at_least(0), doc="How many folders for bucket_by.")
    max_file_bytes: int = option(
        default=0,
        unit="bytes",
        check=at_least(0),
        doc="Begin a new file when one has grown to this size; 0: never.",
    )
    header: bool = option(default=True, doc="csv: begin each file with the columns' names.")
    delimiter: str = option(default=",", doc="csv: between fields.", check=one_character)
    quote: str = option(default='"', doc="csv: around fields.", check=one_character)
    null: str = option(default="", doc="csv: what null is written as.")
    root: str = option(default="rows", doc="xml: the element around all others.", check=xml_name)
    element: str = option(
        default="row", doc="xml: the element that a row's columns make.", check=xml_name
    )
    convert: str = option(
        default="",
        doc="files: a function from a file's bytes to its output's bytes, as `module:function`.",
    )
    errors: str = option(
        default="errors",
        doc="files: the folder for files whose conversion fails, each with a report beside it.",
    )
    keep_times: bool = option(
        default=False, doc="files: give an output the modification time of its input."
    )
    keep_metadata: bool = option(
        default=False,
        doc="files: give an output the permission bits, or the metadata, of an input that was "
        "read with metadata=true.",
    )
    sweep_age: float = option(
        default=86400.0,
        unit="seconds",
        doc="Remove temporary files that other, dead queries left so long ago.",
    )

    def settle(self) -> None:
        """Refuse what contradicts itself."""
        if bool(self.bucket_by) != bool(self.buckets):
            raise OptionError("bucket_by and buckets belong together", fix="give both, or none")
        if self.delimiter == self.quote:
            raise OptionError("delimiter and quote must differ", got=self.quote)
        from penstock_localfile.engine.forafile import FACTS

        files = self.format == "files"
        if files and (self.partition_by or self.bucket_by or self.compression != "none"):
            raise OptionError(
                "format=files writes each file as it is",
                fix="drop partition_by, bucket_by and compression",
            )
        inside = {"avro": ("none", "gzip"), "parquet": ("none", "gzip", "zstd")}
        allowed = inside.get(self.format)
        if allowed is not None and self.compression not in allowed:
            raise OptionError(
                f"format={self.format} is not compressed this way",
                expected=" or ".join(allowed),
                got=self.compression,
            )
        if self.convert and not files:
            raise OptionError("convert has a meaning only with format=files")
        self._check_name(FACTS if files else None)

    def _check_name(self, facts: tuple[str, ...] | None) -> None:
        from penstock_localfile.engine.routing import check_template, stays_below

        if self.file_name is None:
            return
        wrong = check_template(self.file_name, facts) if facts else check_template(self.file_name)
        if wrong is None and facts is None:
            needed = ["{batch", "{partition", *(["{roll"] if self._rolls() else [])]
            lacking = [n for n in needed if n not in self.file_name]
            if lacking:
                wrong = f"must hold {', '.join(n + '}' for n in lacking)}, or files would collide"
        if wrong is None and not stays_below(self.file_name):
            wrong = "would lead out of the folder"
        if wrong is None and "{folder}/" in self.file_name:
            wrong = "must not have / behind {folder}, which ends in one where there is a folder"
        if wrong is not None:
            raise OptionError(f"the option file_name {wrong}", got=self.file_name)

    def _rolls(self) -> bool:
        return bool(self.max_file_bytes or self.partition_by or self.bucket_by)

    def taken(self, schema: pa.Schema) -> pa.Schema:
        """The columns the sink takes."""
        if self.format == "files":
            return self._conversion().accepts(schema)
        taken = self._encoding().accepts(schema) if self.format != "lines" else self._lines(schema)
        self._layout().kept(taken)
        return taken

    def _lines(self, schema: pa.Schema) -> pa.Schema:
        """A line's column, and those that name folders."""
        from penstock_localfile.engine.encodings import LinesEncoding

        folders = [f for f in schema if f.name in (*self.partition_by, *self.bucket_by)]
        rest = pa.schema([f for f in schema if f not in folders])
        return pa.schema([*LinesEncoding().accepts(rest), *folders])

    def writer(self, publisher: Publisher, batch: Batch, partition: int, attempt: int) -> Writer:
        """The writer of one task."""
        from penstock_localfile.engine.forafile import FilesWriter
        from penstock_localfile.engine.writing import ShareWriter, Style

        if self.format == "files":
            return FilesWriter(publisher, self._conversion(), batch, partition, attempt)
        style = Style(
            self._encoding(),
            self._layout(),
            self.file_name or _NAME,
            self.compression,
            self.max_file_bytes,
        )
        return ShareWriter(publisher, style, batch, partition, attempt)

    def _conversion(self) -> Conversion:
        from penstock_localfile.engine.forafile import Conversion

        return Conversion(
            self.convert,
            self.file_name or "{path}",
            self.errors,
            self.keep_times,
            self.keep_metadata,
        )

    def _layout(self) -> Layout:
        from penstock_localfile.engine.routing import Layout

        return Layout(tuple(self.partition_by), tuple(self.bucket_by), self.buckets)

    def _encoding(self) -> Encoding:
        from penstock_localfile.engine import encodings as e

        made: dict[str, Any] = {
            "lines": e.LinesEncoding,
            "csv": lambda: e.CsvEncoding(self.header, self.delimiter, self.quote, self.null),
            "json": e.JsonEncoding,
            "parquet": lambda: e.ParquetEncoding(self.compression),
            "avro": lambda: e.AvroEncoding(self.compression),
            "xml": self._xml,
        }
        return made[self.format]()  # type: ignore[no-any-return]

    def _xml(self) -> Encoding:
        from penstock_localfile.engine.xmlfile import XmlEncoding

        return XmlEncoding(self.root, self.element)
