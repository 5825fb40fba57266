"""The little broker as a process that can be killed and started again on its port and data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from penstock.conformance import processes


class BrokerProcess:
    """Usable as a context manager; `kill` is a power cut, `start` brings it back."""

    def __init__(self, folder: Path, password: str | None = None) -> None:
        self.folder = folder
        self.password = password
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> BrokerProcess:
        module = "penstock.conformance.reference.broker"
        command = [sys.executable, "-m", module, str(self.folder), f"--port={self.port}"]
        if self.password is not None:
            command.append(f"--password={self.password}")
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the broker ended with {self._process.wait()}")
        self.port = int(line)
        return self

    def kill(self) -> None:
        if self._process is None:
            return
        processes.slay(self._process.pid)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process = None

    def restart(self) -> BrokerProcess:
        self.kill()
        return self.start()

    def __enter__(self) -> BrokerProcess:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()
