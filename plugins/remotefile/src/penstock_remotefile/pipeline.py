"""Many SFTP requests under way at once, on the caller's own thread."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import paramiko

LARGEST = 255 << 10
"""What OpenSSH answers at once; a server that gives less is asked for less from then on."""
AHEAD = 4 << 20
"""Bytes asked for and not yet read, or sent and not yet confirmed."""
PIECE = 32 << 10
"""What every server takes in one write."""


class Pipeline:
    """Reads a handle from an offset to an end, in order.

    paramiko's own prefetch asks for 32 KiB at a time, from a thread that dies noisily with its
    connection; this asks for eight times as much, and fails where it is read.
    """

    def __init__(self, sftp: paramiko.SFTPClient, handle: bytes, start: int, end: int) -> None:
        self._sftp = sftp
        self._handle = handle
        self._next = start
        self._end = end
        self._size = LARGEST
        self._asked: deque[tuple[int, int, int]] = deque()
        self._answers: dict[int, bytes | Exception] = {}

    @property
    def idle(self) -> bool:
        """Whether no answer is under way."""
        return not self._asked

    def read(self) -> bytes:
        """The next bytes; empty where the file ends before its time."""
        self._ask()
        if not self._asked:
            return b""
        number, offset, size = self._asked.popleft()
        while number not in self._answers:
            self._sftp._read_response()
        answer = self._answers.pop(number)
        if isinstance(answer, EOFError):
            return b""
        if isinstance(answer, Exception):
            raise answer
        if 0 < len(answer) < size:
            self._begin_again(offset + len(answer), len(answer))
        return answer

    def _ask(self) -> None:
        from paramiko.sftp import CMD_READ, int64

        while self._next < self._end and len(self._asked) * self._size < AHEAD:
            size = min(self._size, self._end - self._next)
            number = self._sftp._async_request(
                self, CMD_READ, self._handle, int64(self._next), size
            )
            self._asked.append((number, self._next, size))
            self._next += size

    def _begin_again(self, at: int, size: int) -> None:
        """A short answer: drop what is under way behind it, and ask for as much as came."""
        while self._asked:
            number = self._asked.popleft()[0]
            while number not in self._answers:
                self._sftp._read_response()
            del self._answers[number]
        self._next, self._size = at, size

    def _async_response(self, kind: int, message: Any, number: int) -> None:
        """Called by paramiko with each answer."""
        from paramiko.sftp import CMD_DATA, CMD_STATUS

        if kind == CMD_DATA:
            self._answers[number] = message.get_string()
            return
        try:
            if kind == CMD_STATUS:
                self._sftp._convert_status(message)
            raise OSError("the server answered a read with something else")
        except (OSError, EOFError) as error:
            self._answers[number] = error


class Sending:
    """Writes a handle from its beginning, in order, and looks at every answer.

    paramiko's own pipelined writes drop the answers that come while it waits for another one: a
    write that the server refused in the middle would leave a hole in a file of the right size.
    """

    def __init__(self, sftp: paramiko.SFTPClient, handle: bytes) -> None:
        self._sftp = sftp
        self._handle = handle
        self._next = 0
        self._held = bytearray()
        self._sent = 0
        self._failed: Exception | None = None

    def write(self, data: bytes) -> None:
        """Take bytes; those that fill a request go out.

        Raises:
            OSError: the server refused an earlier write, or the connection is lost.
        """
        self._held += data
        while len(self._held) >= PIECE:
            self._send(bytes(self._held[:PIECE]))
            del self._held[:PIECE]

    def finish(self) -> int:
        """Send the rest and wait for every answer; how many bytes the server took."""
        if self._held:
            self._send(bytes(self._held))
            self._held.clear()
        self._wait(0)
        return self._next

    def _send(self, piece: bytes) -> None:
        from paramiko.sftp import CMD_WRITE, int64

        self._wait(AHEAD // PIECE)
        self._sent += 1
        self._sftp._async_request(self, CMD_WRITE, self._handle, int64(self._next), piece)
        self._next += len(piece)

    def _wait(self, most: int) -> None:
        while self._sent > most:
            self._sftp._read_response()
        if self._failed is not None:
            raise self._failed

    def _async_response(self, kind: int, message: Any, number: int) -> None:
        """Called by paramiko with each answer, also while it waits for another."""
        from paramiko.sftp import CMD_STATUS

        self._sent -= 1
        try:
            if kind != CMD_STATUS:
                raise OSError("the server answered a write with something else")
            self._sftp._convert_status(message)
        except (OSError, EOFError) as error:
            self._failed = self._failed or error
