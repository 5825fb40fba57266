"""Records that librdkafka lends us, handed back all at once.

`rd_kafka_message_destroy`, once per record, would take a fifth of reading. Newer versions of
librdkafka have a list of records of their own, with one function that hands back all that are in
it: a count, followed by the records' addresses. Nobody promises that it stays this way, so it is
asked, through the functions that read such a list, whether it is one. Where it is not, or there
are no such lists, every record is handed back by itself.
"""

from __future__ import annotations

import ctypes
from collections import deque
from ctypes import c_int64, c_size_t, c_void_p
from functools import cache
from types import SimpleNamespace, TracebackType

import numpy as np

from penstock_kafka.librdkafka import lib


class Taken:
    """Room for records; `fill` takes them from a queue, leaving the block hands them back."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lists = message_lists()
        self.pointers = np.empty(0, np.int64)

    def fill(self, queue: int, timeout: float) -> int:
        """Take what comes within `timeout` seconds; how many there are, below 0 for none."""
        where = self._words.ctypes.data + 8
        taken = int(lib().consume_batch_queue(queue, int(timeout * 1000), where, self._most))
        if taken > 0:
            self._words[0] = taken
            self.pointers = self._words[1 : taken + 1]
        return taken

    def __enter__(self) -> Taken:
        size = self._most + 1
        if self._lists is None:
            self._words = np.zeros(size, np.int64)
        else:
            self._block = self._lists.malloc(8 * size)
            if not self._block:
                raise MemoryError
            self._words = _words(self._block, size)
            self._words[0] = 0
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._lists is None:
            # Exhausts the map without a line of Python per record.
            deque(map(lib().message_destroy, self.pointers.tolist()), maxlen=0)
        else:
            self._lists.destroy(self._block)  # frees the block, too
        del self._words, self.pointers


@cache
def message_lists() -> SimpleNamespace | None:
    """The functions of librdkafka's lists of records, if they are what we take them for."""
    rk, libc = lib(), ctypes.PyDLL(None)
    if rk.messages_destroy is None:
        return None
    malloc, free = libc.malloc, libc.free
    malloc.restype, malloc.argtypes = c_void_p, [c_size_t]
    free.restype, free.argtypes = None, [c_void_p]
    # Whatever it takes these numbers for, it finds memory there.
    safe = (c_int64 * 64)()
    here = ctypes.addressof(safe)
    made = (c_int64 * 8)(2, here + 8, here + 16, here, here, here, here, here)
    block = ctypes.addressof(made)
    asked = [rk.messages_count(block), rk.messages_get(block, 0), rk.messages_get(block, 1)]
    if asked != [2, here + 8, here + 16]:
        return None
    return SimpleNamespace(malloc=malloc, destroy=rk.messages_destroy)


def _words(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((c_int64 * count).from_address(address))
