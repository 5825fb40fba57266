"""XML files larger than memory: a row for each element that a path selects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from attrs import field, frozen

from penstock.contracts.errors import OptionError, ReadError, SetupError
from penstock_localfile.engine.compression import as_file
from penstock_localfile.engine.formats.base import Format, envelope
from penstock_localfile.engine.ledger import Logged
from penstock_localfile.engine.names import shown
from penstock_localfile.engine.parts import Range
from penstock_localfile.engine.storage import Storage

_ROWS = 5_000
_BYTES = 4 << 20
_STEP = re.compile(r"(//?)((?:[\w.-]+:)?[\w.-]+|\*)")


@frozen
class RowPath:
    """Which elements are rows: `/orders/order`, `//order`, `//*[@kind='a']`.

    Attributes:
        steps: Pairs of (may skip levels, name or `*`), from the root down.
        condition: The predicate of the last step, with its brackets; empty if none.
    """

    steps: tuple[tuple[bool, str], ...]
    condition: str = ""

    @classmethod
    def parse(cls, text: str) -> RowPath:
        """The path in a user's words.

        Raises:
            OptionError: it is more than names, `*`, `/`, `//` and one predicate at the end.
        """
        at, steps = 0, []
        while match := _STEP.match(text, at):
            steps.append((match.group(1) == "//", match.group(2)))
            at = match.end()
        condition = text[at:]
        closed = condition == "" or (condition[0] == "[" and condition[-1] == "]")
        if not steps or not closed:
            raise OptionError(
                "this path cannot select rows while a file streams by",
                expected="steps of / or // with a name or *, and predicates on the last: "
                "//order[@id > 3]",
                got=text,
            )
        return cls(tuple(steps), condition)

    def pattern(self, namespaces: dict[str, str]) -> re.Pattern[str]:
        """A regular expression over the names from the root to an element, each after a `/`."""
        out = ""
        for skips, name in self.steps:
            prefix, _, local = name.rpartition(":")
            if name == "*":
                word = "[^/]+"
            elif prefix:
                if prefix not in namespaces:
                    raise OptionError(f"the prefix {prefix} is not in namespaces", got=name)
                word = re.escape(f"{{{namespaces[prefix]}}}".replace("/", "\\") + local)
            else:
                word = re.escape(local)
            out += ("(?:/[^/]+)*/" if skips else "/") + word
        return re.compile(out)


@frozen
class XmlFormat(Format):
    """One envelope per selected element: `value` is its text as XML, `position` its number."""

    row: str = "/*/*"
    namespaces: dict[str, str] = field(factory=dict)

    def read(self, storage: Storage, piece: Range) -> Iterator[pa.RecordBatch]:
        """The elements of a file, in its order."""
        for inside, content in self.expanding.documents(storage, piece.file):
            at, held, size = 0, [], 0
            for element in self._elements(content, piece.file):
                held.append(element)
                size += len(element)
                if len(held) >= _ROWS or size >= _BYTES:
                    yield self._rows(storage, piece.file, held, at, inside)
                    at, held, size = at + len(held), [], 0
            if held:
                yield self._rows(storage, piece.file, held, at, inside)

    def _rows(
        self, storage: Storage, file: Logged, held: list[bytes], at: int, inside: str
    ) -> pa.RecordBatch:
        positions = pa.array(np.arange(at, at + len(held), dtype=np.int64))
        return envelope(storage, file, pa.array(held, pa.binary()), positions, inside=inside)

    def _elements(self, content: Any, file: Logged) -> Iterator[bytes]:
        etree = lxml()
        path = RowPath.parse(self.row)
        pattern = path.pattern(self.namespaces)
        test = None
        if path.condition:
            test = etree.XPath(f"self::*{path.condition}", namespaces=self.namespaces or None)
        names: list[str] = []
        inside = 0  # how many selected elements are open; nothing below them is thrown away
        limited = _Limited(as_file(content), self.longest)
        try:
            events = etree.iterparse(
                limited,
                events=("start", "end"),
                resolve_entities=False,
                no_network=True,
                load_dtd=False,
                huge_tree=False,
                remove_comments=True,
                remove_pis=True,
            )
            for event, element in events:
                if event == "start":
                    if element.getparent() is None:
                        _refuse_entities(element)
                    names.append(_name(element.tag))
                    inside += bool(pattern.fullmatch("/" + "/".join(names)))
                    continue
                selected = bool(pattern.fullmatch("/" + "/".join(names)))
                names.pop()
                if selected:
                    inside -= 1
                    if test is None or test(element):
                        yield etree.tostring(element, with_tail=False, encoding="utf-8")
                if not inside:
                    limited.reset()
                    element.clear(keep_tail=False)
                    while element.getprevious() is not None:
                        del element.getparent()[0]
        except etree.XMLSyntaxError as error:
            raise ReadError(
                f"an XML file cannot be read: {error.msg}",
                got=f"{shown(file.entry.path)}, line {error.lineno}",
            ) from None


class _Limited:
    """A stream that fails when one element takes more than its bound."""

    def __init__(self, stream: Any, longest: int) -> None:
        self._stream = stream
        self._longest = longest
        self._taken = 0

    def read(self, size: int) -> bytes:
        data: bytes = self._stream.read(size)
        self._taken += len(data)
        if self._taken > self._longest:
            raise ReadError(
                f"an element is larger than {self._longest} bytes", fix="raise max_record_bytes"
            )
        return data

    def reset(self) -> None:
        self._taken = 0


def _refuse_entities(root: Any) -> None:
    kind = root.getroottree().docinfo.internalDTD
    if kind is not None and any(True for _ in kind.iterentities()):
        raise ReadError(
            "an XML file declares entities, which are refused",
            fix="remove the DOCTYPE, or expand the entities before",
        )


def _name(tag: str) -> str:
    # A namespace holds slashes, which separate names here.
    return tag.replace("/", "\\")


def lxml() -> Any:
    """Its etree.

    Raises:
        SetupError: it is not installed.
    """
    try:
        from lxml import etree
    except ImportError as error:
        raise SetupError(
            f"XML files need a further package: {error}", fix='pip install "penstock[xml]"'
        ) from error
    return etree
