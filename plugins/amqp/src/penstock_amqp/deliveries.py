"""Deliveries straight from the wire.

pika makes a dozen objects and callbacks of every message. A consumer that takes thousands a
second needs none of them: this connection finds Basic.Deliver and its content in the bytes
itself, and leaves every other frame to pika. Ordinary messages that lie one behind another stay
together as columns; others are read one by one. A test holds all ways to the same result.
"""

from __future__ import annotations

from collections.abc import Callable

import pika
from pika import frame

from penstock_amqp.columns import Ordinary
from penstock_amqp.frames import (
    BEFORE,
    BODY,
    DELIVER,
    HEADER,
    METHOD,
    Frames,
    runs,
    whole_frames,
    without_begun,
)
from penstock_amqp.received import Received

_AT_ONCE = 2**16
"""Bytes taken from the socket by one call; pika's own 4 KiB are a dozen small messages."""
_MOST_HELD = 2**19
"""Bytes that are read together at most."""


class SwiftConnection(pika.SelectConnection):
    """A connection whose deliveries on one channel go to `taken` once `watch` was called."""

    arrived = 0
    """Bytes that have come since `watch`."""
    unread = 0
    """Of these, how many wait for `read`."""
    _number: int | None = None
    _taken: Callable[[Ordinary | list[Received]], None]
    _held: list[bytes]
    _message: Received | None = None
    _missing = 0
    _pieces: list[bytes]
    _single: list[Received]

    def watch(self, number: int, taken: Callable[[Ordinary | list[Received]], None]) -> None:
        """Hand deliveries of this channel over; call it before the first consume."""
        self._taken = taken
        self._held, self._pieces, self._single = [], [], []
        self._number = number
        transport = getattr(self, "_transport", None)
        if transport is not None:
            transport._MAX_RECV_BYTES = _AT_ONCE
            transport._MAX_CONSUME_BYTES = 4 * _AT_ONCE

    def read(self) -> None:
        """Hand over what has come. Until then it is only collected: together it is read faster."""
        try:
            self._read()
        except Exception as error:
            self._terminate_stream(error)  # as pika does when it fails to read

    def abandon(self) -> None:
        """Drop the socket of a peer that does not answer a close."""
        transport = getattr(self, "_transport", None)
        if transport is not None:
            transport.abort()

    def _proto_eof_received(self) -> bool:
        self._read()  # the broker may have said why
        return bool(super()._proto_eof_received())

    def _on_data_available(self, data_in: bytes) -> None:
        if self._number is None:
            super()._on_data_available(data_in)
            return
        self.arrived += len(data_in)
        self._held.append(data_in)
        self.unread += len(data_in)
        if self.unread >= _MOST_HELD:
            self._read()

    def _read(self) -> None:
        if not self.unread or self.is_closed:
            return
        assert self._number is not None
        data = b"".join([self._frame_buffer, *self._held])
        self._held, self.unread = [], 0
        found = without_begun(whole_frames(data, self._number), self._number)
        self._frame_buffer = data[found.end :]
        self.bytes_received += found.end
        done = 0
        for first, stop in runs(found, self._number):
            messages = Ordinary.read(found, first)
            if messages is not None:
                self._each(found, done, int(first[0]))
                self._hand_over()
                if self.is_closed:
                    return
                self._taken(messages)
                self.frames_received += stop - int(first[0])
                done = stop
        self._each(found, done, len(found))
        self._hand_over()
        if found.broken:
            raise pika.exceptions.InvalidFrameError("Invalid FRAME_END marker")

    def _hand_over(self) -> None:
        if self._single:
            single, self._single = self._single, []
            self._taken(single)

    def _each(self, found: Frames, first: int, stop: int) -> None:
        """Take frames one by one."""
        heads = (found.kinds, found.channels, found.starts, found.sizes)
        for kind, channel, at, size in zip(*(a[first:stop].tolist() for a in heads), strict=True):
            end = at + BEFORE + size
            if channel == self._number and self._swift(kind, found.data, at + BEFORE, end):
                self.frames_received += 1
                continue
            self._process_frame(frame.decode_frame(found.data[at : end + 1])[1])
            if self.is_closed:
                return

    def _swift(self, kind: int, data: bytes, at: int, end: int) -> bool:
        """Take a frame that belongs to a delivery; False: it does not."""
        if kind == METHOD:
            if data[at : at + 4] != DELIVER:
                return False
            self._message = Received.begun(data, at + 4)
            return True
        message = self._message
        if message is None:
            return False
        if kind == HEADER:
            self._missing = message.content(data, at)
            message.size = end - at + self._missing
        elif kind == BODY:
            self._pieces.append(data[at:end])
            self._missing -= end - at
        else:
            return False
        if self._missing <= 0:
            self._message = None
            pieces, self._pieces = self._pieces, []
            message.body = b"".join(pieces)
            self._single.append(message)
        return True
