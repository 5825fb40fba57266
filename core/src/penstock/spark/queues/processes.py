"""The reader's view of its receiver processes: start, listen, start again, stop."""

from __future__ import annotations

import base64
import contextlib
import json
import pickle
import subprocess
import sys
import threading
import time
from typing import Any

from pyspark import cloudpickle

from penstock.contracts.errors import PenstockError, ReadError
from penstock.spark.queues.backoff import Backoff
from penstock.spark.queues.child import Task

STOP_WITHIN = 15.0


class ReceiverProcess:
    """One receiver process, started again when it dies of something other than an error."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._backoff = Backoff(task.options.retry_for)
        self._again = 0.0
        self._before: dict[str, int] = {}
        self.numbers: dict[str, Any] = {}
        self.error: PenstockError | None = None
        self.restarts = 0
        self._start()

    def _start(self) -> None:
        self.numbers = {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "penstock.spark.queues.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        body: bytes = cloudpickle.dumps(self._task)  # type: ignore[no-untyped-call]
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died: look() starts it again
            self._process.stdin.write(len(body).to_bytes(8, "big") + body)
            self._process.stdin.flush()
        self._listener = threading.Thread(
            target=self._listen, args=(self._process,), name="penstock-child", daemon=True
        )
        self._listener.start()

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            said = json.loads(line)
            if "error" in said:
                self.error = pickle.loads(base64.b64decode(said["error"]))  # from our own child
            else:
                self.numbers = said
                if said["connected"]:
                    self._backoff.worked()

    def look(self) -> None:
        """See that it is well; start it again if it was killed.

        Raises:
            PenstockError: what it failed with.
        """
        if self._process.poll() is None:
            return
        self._listener.join()
        if self.error is not None:
            raise self.error
        if self._again == 0.0:
            pause = self._backoff.pause()
            if pause is None:
                raise ReadError(
                    f"a receiver process keeps dying, last with code {self._process.returncode}",
                    fix="see the driver's standard error for what it said",
                )
            self._again = time.monotonic() + pause
            for name in ("received", "redelivered", "reconnects"):
                self._before[name] = self.total(name)
            self.numbers = {}
        if time.monotonic() >= self._again:
            self._again = 0.0
            self.restarts += 1
            self._close()
            self._start()

    def total(self, name: str) -> int:
        """A count over all lives of this receiver."""
        return self._before.get(name, 0) + int(self.numbers.get(name) or 0)

    def end(self) -> None:
        """Ask it to stop after the lease at work."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def join(self, deadline: float) -> None:
        """Wait for its end; kill it if that takes too long."""
        try:
            self._process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()
        self._close()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def stop_all(receivers: list[ReceiverProcess]) -> None:
    """Stop them side by side."""
    for receiver in receivers:
        receiver.end()
    deadline = time.monotonic() + STOP_WITHIN
    for receiver in receivers:
        receiver.join(deadline)
