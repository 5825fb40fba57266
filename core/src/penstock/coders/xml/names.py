"""Which of a few known names stands in a span of bytes, for many spans at once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from penstock.coders.cursors import Buffer, Ints, Words

_MASKS = np.array([2 ** (8 * size) - 1 for size in range(9)], np.uint64)
_ODD = np.uint64(0x9E3779B97F4A7C15)

Codes = npt.NDArray[np.int16]


class Names:
    """Names and their numbers, in the order of the alphabet."""

    def __init__(self, known: Iterable[str]) -> None:
        self.known = sorted({name.encode() for name in known})
        self.number = {name.decode(): code for code, name in enumerate(self.known)}
        self.words = max((len(name) + 7) // 8 for name in self.known) if self.known else 0
        padded = [name.ljust(8 * self.words, b"\0") for name in self.known]
        self.exact = np.frombuffer(b"".join(padded), "<u8").reshape(len(padded), -1)
        keys = _mixed([self.exact[:, word] for word in range(self.words)])
        self.order = np.argsort(keys)
        self.keys = keys[self.order]

    def codes(self, buffer: Buffer, starts: Ints, ends: Ints) -> Codes:
        """The number of the name in each span; -1 for one that is not known."""
        if not self.known:
            return np.full(len(starts), -1, np.int16)
        size = ends - starts
        found = []
        for word in range(self.words):
            here = np.minimum(starts + 8 * word, len(buffer.words) - 1)
            found.append(buffer.words[here] & _MASKS[np.clip(size - 8 * word, 0, 8)])
        place = np.searchsorted(self.keys, _mixed(found))
        code = self.order[np.minimum(place, len(self.keys) - 1)]
        same = size <= 8 * self.words
        for word, each in enumerate(found):
            same &= self.exact[code, word] == each
        return np.where(same, code, -1).astype(np.int16)


def _mixed(words: list[Words]) -> Words:
    """One number for a name's words: equal names have equal ones, others seldom do."""
    if not words:
        return np.empty(0, np.uint64)
    key = words[0].copy()
    for each in words[1:]:
        key = key * _ODD + each
    return key
