"""Ports below the ephemeral range, so that no client socket takes one while its server restarts."""

import random
import socket

FIRST, LAST = 15000, 32000
_random = random.SystemRandom()


def free_port() -> int:
    for _ in range(1000):
        port = _random.randrange(FIRST, LAST)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port between {FIRST} and {LAST}")


def answers(port: int, timeout: float = 1.0) -> bool:
    """Whether something accepts connections there."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout):
            return True
    except OSError:
        return False
