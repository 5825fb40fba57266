"""Frames in bytes off the wire, found for all at once.

Every frame ends with the same octet, so whatever stands behind such an octet and looks like a
frame's head may be one. It is one for certain if the frame before it ends right there: from the
first frame on, which is known, each proves the next.
"""

from __future__ import annotations

import struct
from itertools import pairwise

import numpy as np
from attrs import evolve, frozen

METHOD, HEADER, BODY = 1, 2, 3
AROUND = 8
"""Octets of a frame beside its payload: seven before it, one behind."""
BEFORE = 7
_END = 0xCE
_HEAD = np.dtype([("kind", "u1"), ("channel", ">u2"), ("size", ">u4")])
_SIZE = struct.Struct(">L")
DELIVER = struct.pack(">HH", 60, 60)
"""With what the payload of Basic.Deliver begins."""
FEWEST = 50
"""Messages from which on columns cost less than objects."""


@frozen(eq=False)
class Frames:
    """Whole frames that lie one behind another from the first octet on.

    Attributes:
        starts: Where each begins.
        sizes: How long the payload is.
        broken: Whether the frame behind the last has another end than a frame's.
    """

    data: bytes
    octets: np.ndarray
    starts: np.ndarray
    kinds: np.ndarray
    channels: np.ndarray
    sizes: np.ndarray
    broken: bool

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def end(self) -> int:
        """Where the last ends."""
        return int(self.starts[-1] + self.sizes[-1]) + AROUND if len(self) else 0

    def until(self, count: int) -> Frames:
        """The first so many."""
        return evolve(
            self,
            starts=self.starts[:count],
            kinds=self.kinds[:count],
            channels=self.channels[:count],
            sizes=self.sizes[:count],
        )


def whole_frames(data: bytes, channel: int) -> Frames:
    """All frames in data that begins with one; most of them are expected on this channel."""
    octets = np.frombuffer(data, np.uint8)
    starts = np.empty(0, np.int64)
    if len(data) >= AROUND:
        heads = _window(octets, _HEAD)
        starts, at = _certain(octets, heads, channel)
        if walked := _walked(data, at):
            starts = np.concatenate([starts, np.array(walked, np.int64)])
        found = heads[starts]
    else:
        found = np.empty(0, _HEAD)
    sizes = found["size"].astype(np.int64)
    stops = starts + AROUND + sizes
    whole = len(stops) - int(len(stops) > 0 and stops[-1] > len(data))
    wrong = np.flatnonzero(octets[stops[:whole] - 1] != _END)
    count = int(wrong[0]) if len(wrong) else whole
    channels = found["channel"].astype(np.int64)
    all_ = Frames(data, octets, starts, found["kind"], channels, sizes, len(wrong) > 0)
    return all_.until(count)


def _certain(octets: np.ndarray, heads: np.ndarray, channel: int) -> tuple[np.ndarray, int]:
    """Frames up to the first that does not prove the next, and where that one ends."""
    likely = np.flatnonzero(octets[: 1 - AROUND] == _END) + 1
    found = heads[likely]
    likely = likely[(found["kind"] <= BODY) & (found["channel"] == channel)]
    starts = np.concatenate([np.zeros(1, np.int64), likely])
    stops = starts + AROUND + heads["size"][starts]
    breaks = np.flatnonzero(stops[:-1] != starts[1:])
    count = int(breaks[0]) + 1 if len(breaks) else len(starts)
    return starts[:count], int(stops[count - 1])


def _walked(data: bytes, at: int) -> list[int]:
    starts = []
    while at + AROUND <= len(data):
        starts.append(at)
        at += AROUND + _SIZE.unpack_from(data, at + 3)[0]
    return starts


def without_begun(found: Frames, channel: int) -> Frames:
    """All but the first frames of a delivery at the end whose body is still to come."""
    last = len(found) - 1
    if found.broken or last < 0 or found.channels[last] != channel:
        return found
    if found.kinds[last] == HEADER and last and body_sizes(found, np.array([last - 1]))[0]:
        last -= 1
    whole = found.kinds[last] != METHOD or found.channels[last] != channel
    at = int(found.starts[last]) + BEFORE
    return found if whole or found.data[at : at + 4] != DELIVER else found.until(last)


def runs(found: Frames, channel: int) -> list[tuple[np.ndarray, int]]:
    """Deliveries that lie one behind another, each with its body in one frame or without any.

    Returns:
        For every run that is long enough, the indices of its deliveries' first frames, and that of
        the frame behind the last.
    """
    count = len(found)
    if count < 2 * FEWEST:
        return []
    kinds = np.where(found.channels == channel, found.kinds, 0)
    first = np.flatnonzero((kinds[:-1] == METHOD) & (kinds[1:] == HEADER))
    methods = numbers(found.octets, ">u4", found.starts[first] + BEFORE)
    first = first[methods == int.from_bytes(DELIVER, "big")]
    said = body_sizes(found, first)
    body = np.minimum(first + 2, count - 1)
    one = (kinds[body] == BODY) & (found.sizes[body] == said)
    ordinary = one | (said == 0)
    first, stops = first[ordinary], first[ordinary] + np.where(one[ordinary], 3, 2)
    edges = [0, *(np.flatnonzero(first[1:] != stops[:-1]) + 1).tolist(), len(first)]
    return [
        (first[begin:end], int(stops[end - 1]))
        for begin, end in pairwise(edges)
        if end - begin >= FEWEST
    ]


def body_sizes(found: Frames, first: np.ndarray) -> np.ndarray:
    """What the content headers behind these frames say."""
    return numbers(found.octets, ">u8", found.starts[first + 1] + BEFORE + 4)


def numbers(octets: np.ndarray, kind: str, at: np.ndarray) -> np.ndarray:
    """Numbers of this type, wherever they begin; of a place beyond the end, any."""
    words = octets if kind == "u1" else _window(octets, np.dtype(kind))
    return words[np.minimum(at, len(words) - 1)].astype(np.int64)


def _window(octets: np.ndarray, kind: np.dtype) -> np.ndarray:
    """What stands at every octet, read as this type."""
    return np.ndarray((len(octets) - kind.itemsize + 1,), kind, octets, strides=(1,))
