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
_TEXT = re.compile(r"'[^']*'|\"[^\"]*\"")
_NUMBERED = re.compile(r"\b(?:position|last)\s*\(")
# What lies elsewhere in the file has gone by or is yet to come; only attributes above are there.
_OUTSIDE = re.compile(
    r"(?:preceding|following)(?:-sibling)?\s*::|\.\.(?!/@|/\.\.)"
    r"|(?:parent|ancestor)(?:-or-self)?\s*::(?![\w.:*-]+/@)"
    r"|(?:^|[\[=<>+|(,-]|\b(?:and|or|div|mod))\s*/"
)


@frozen
class RowPath:
    """Which elements are rows: `/orders/order`, `//order`, `//*[@kind='a']`.

    Attributes:
        steps: Pairs of (may skip levels, name or `*`), from the root down.
        conditions: The predicates of the last step, without their brackets.
    """

    steps: tuple[tuple[bool, str], ...]
    conditions: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> RowPath:
        """The path in a user's words.

        Raises:
            OptionError: it is more than names, `*`, `/`, `//` and predicates at the end, or one of
                them asks for what cannot be known while a file streams by.
        """
        at, steps = 0, []
        while match := _STEP.match(text, at):
            steps.append((match.group(1) == "//", match.group(2)))
            at = match.end()
        conditions = _bracketed(text[at:])
        if not steps or conditions is None:
            raise OptionError(
                "this path cannot select rows while a file streams by",
                expected="steps of / or // with a name or *, and predicates on the last: "
                "//order[@id > 3]",
                got=text,
            )
        return cls(tuple(steps), conditions)

    def test(self, namespaces: dict[str, str]) -> Any:
        """A compiled XPath that is true of the elements that meet the conditions; None: all do.

        Raises:
            OptionError: a condition is no XPath, counts elements, or looks outside of its element.
        """
        if not self.conditions:
            return None
        etree = lxml()
        for each in self.conditions:
            bare = _blank(each)
            numbered = _NUMBERED.search(_shallow(bare)) is not None
            try:
                # The type of an expression is the same for every element.
                find = etree.XPath(each, namespaces=namespaces or None)
                numbered = numbered or isinstance(find(etree.Element("any")), float)
            except etree.XPathError as error:
                raise OptionError(f"a predicate of row is no XPath: {error}", got=each) from None
            if numbered:
                raise OptionError(
                    "a predicate of row counts elements, which are not kept while a file streams by",
                    expected="a condition on the element: //order[@id > 3]",
                    got=f"[{each}]",
                )
            if _OUTSIDE.search(bare):
                raise OptionError(
                    "a predicate of row looks outside of its element, and what is there is not "
                    "kept while a file streams by",
                    expected="the element, what is in it, and the attributes above it: ../@kind",
                    got=f"[{each}]",
                )
        whole = "".join(f"[{each}]" for each in self.conditions)
        return etree.XPath(f"self::*{whole}", namespaces=namespaces or None)

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
        test = path.test(self.namespaces)
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
        except etree.XPathError as error:
            raise ReadError(
                f"a predicate of row cannot be evaluated: {error}",
                got=f"{self.row} in {shown(file.entry.path)}",
            ) from None


def _blank(text: str) -> str:
    """The text with its string literals emptied, of the same length."""
    return _TEXT.sub(lambda found: "'" + " " * (len(found.group()) - 2) + "'", text)


def _bracketed(text: str) -> tuple[str, ...] | None:
    """What is in each pair of brackets; None if there is anything else."""
    found, depth, start = [], 0, 0
    for at, letter in enumerate(_blank(text)):
        if letter == "[":
            depth += 1
            start = at + 1 if depth == 1 else start
        elif letter == "]":
            depth -= 1
            if depth == 0:
                found.append(text[start:at])
        elif depth == 0 and not letter.isspace():
            return None
        if depth < 0:
            return None
    return tuple(found) if depth == 0 else None


def _shallow(bare: str) -> str:
    """The text without what is in brackets."""
    while (less := re.sub(r"\[[^\[\]]*\]", "", bare)) != bare:
        bare = less
    return bare


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
