"""Rows that are elements of a name: the XPaths that need no tree."""

from __future__ import annotations

import re

import numpy as np
from attrs import frozen

from penstock.coders.cursors import Buffer, Rows
from penstock.coders.xml.names import Codes, Names
from penstock.coders.xml.scan import Elements

_NAME = r"[^\W\d][\w-]*"
_PATH = re.compile(rf"(//|\.//|/|\./|)({_NAME}(?:/{_NAME})*)")
_DEEPEST = 2**14


@frozen
class RowPath:
    """Steps from a root, or from anywhere, to the elements that are rows.

    Attributes:
        steps: The names on the way; none: the root is the row.
        level: Where the first step is (the root's level is one), or the least if `anywhere`.
        anywhere: The first step may be at any level from there.
    """

    steps: tuple[str, ...] = ()
    level: int = 1
    anywhere: bool = False

    @property
    def depth(self) -> int:
        """How deep rows can be."""
        return _DEEPEST if self.anywhere else max(self.level + len(self.steps) - 1, 1)

    def find(self, buffer: Buffer, elements: Elements, codes: Codes, names: Names) -> Rows:
        """The rows' elements; documents in which one is within another are left over."""
        if not self.steps:
            return np.flatnonzero(elements.level == 1)
        # In an XPath a name without a prefix is one without a namespace.
        bare = elements.name == elements.start + 1
        found = np.flatnonzero((codes == names.number[self.steps[-1]]) & bare)
        above = found
        for step in reversed(self.steps[:-1]):
            deep = elements.level[above] > 1
            found, above = found[deep], elements.parent[above[deep]]
            fits = (codes[above] == names.number[step]) & bare[above]
            found, above = found[fits], above[fits]
        level = elements.level[above]
        found = found[level >= self.level if self.anywhere else level == self.level]
        doc, level = elements.doc[found], elements.level[found]
        # Rows of one level are beside each other.
        within = (doc[1:] == doc[:-1]) & (level[1:] != level[:-1])
        buffer.left[doc[1:][within]] = True
        return found[~buffer.left[doc]]


def row_path(text: str) -> RowPath | None:
    """The path that an XPath is, if it is one of names alone."""
    if text == ".":
        return RowPath()
    found = _PATH.fullmatch(text)
    if found is None:
        return None
    start, steps = found[1], tuple(found[2].split("/"))
    return RowPath(steps, 1 if start in ("/", "//") else 2, start in ("//", ".//"))
