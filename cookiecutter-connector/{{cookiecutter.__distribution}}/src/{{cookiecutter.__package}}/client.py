"""The broker's client: a connection that asks and gets an answer.

CHANGE replace it by your system's client library.
"""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from typing import Any


class Refused(Exception):
    """The broker answers, and says no."""


class Link:
    """One connection; not for use from several threads at once."""

    def __init__(self, host: str, port: int, password: str | None) -> None:
        self._password = password
        self._socket = socket.create_connection((host, port), timeout=10)
        self._stream = self._socket.makefile("rwb")

    def ask(self, op: str, **facts: Any) -> dict[str, Any]:
        """Send a request and wait for its reply; OSError if the connection is lost."""
        self._socket.settimeout(10 + facts.get("wait", 0))
        request = {"op": op, "password": self._password, **facts}
        self._stream.write(json.dumps(request).encode() + b"\n")
        self._stream.flush()
        line = self._stream.readline()
        if not line:
            raise ConnectionResetError("the broker closed the connection")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise Refused(reply["why"])
        return reply

    def close(self) -> None:
        """Shut the connection; never raises for a lost one."""
        with suppress(OSError):  # what was not flushed went nowhere: the broker is gone
            self._stream.close()
        self._socket.close()
