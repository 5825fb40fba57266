"""What every server in these tests can do: start, stop, be killed, be frozen, come back."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from penstock.conformance import processes
from penstock.conformance.waiting import NotInTime, until
from tests.brokers import reaper


class Missing(Exception):
    """This machine lacks a server; the message says how to get it."""


class Failed(Exception):
    """A server did not come up; the message ends with the tail of its log."""


class Server:
    """A real server as plain processes, on free ports of 127.0.0.1, in a temporary folder.

    Usable without pytest: `with Kafka() as kafka: kafka.address`. The ports and the folder stay the
    same over `kill` and `restart`; `stop` ends it for good and removes the folder.
    """

    name = "server"
    patience = 60.0

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"penstock-{self.name}-"))
        self.log = self.folder / "server.log"
        self._started: list[subprocess.Popen] = []
        self._prepared = False

    @property
    def address(self) -> str:
        """host:port, or whatever its clients are given."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Write configuration and format storage; called once, before the first start."""
        raise NotImplementedError

    def launch(self) -> None:
        """Spawn the processes; called at each start."""
        raise NotImplementedError

    def ready(self) -> bool:
        """Shake hands as a client would; called until true."""
        raise NotImplementedError

    def start(self) -> "Server":
        try:
            if not self._prepared:
                self.prepare()
                self._prepared = True
            self.launch()
            until(self._up, within=self.patience, why=f"{self.name} answers", every=0.1)
        except NotInTime as late:
            self.kill()
            raise Failed(f"{late}\n{self.log_tail()}") from late
        except BaseException:
            self.kill()
            raise
        return self

    def restart(self) -> "Server":
        """Start again on the same ports and data, after `kill` or while running."""
        self.kill()
        return self.start()

    def kill(self) -> None:
        """SIGKILL all its processes at once, as a power cut would."""
        processes.slay(*self.pids)
        self._reap()

    def stop(self) -> None:
        """End it for good; nothing of it is left."""
        processes.thaw(*self.pids)
        for process in reversed(self._started):
            process.terminate()
        try:
            for process in reversed(self._started):
                process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            pass  # the kill below ends what did not end by itself
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def freeze(self) -> None:
        """SIGSTOP: it holds its connections and answers nothing."""
        processes.hold(*self.pids)

    def thaw(self) -> None:
        processes.thaw(*self.pids)

    @property
    def pids(self) -> list[int]:
        return processes.tree(*(process.pid for process in self._started))

    @property
    def running(self) -> bool:
        return bool(self._started) and all(process.poll() is None for process in self._started)

    def __enter__(self) -> "Server":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def log_tail(self, lines: int = 40) -> str:
        if not self.log.exists():
            return f"({self.name} wrote no log)"
        tail = self.log.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join([f"--- the last lines of {self.name}'s log ---", *tail])

    def spawn(self, command: list[str], env: dict[str, str] | None = None) -> subprocess.Popen:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        reaper.watch(process.pid)
        self._started.append(process)
        return process

    def run(self, command: list[str], env: dict[str, str] | None = None) -> str:
        """Run a tool of this server to its end; its output, or `Failed` with it."""
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            timeout=self.patience,
        )
        if done.returncode:
            raise Failed(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-4000:]}")
        return done.stdout

    def _up(self) -> bool:
        for process in self._started:
            if process.poll() is not None:
                raise Failed(
                    f"{self.name} ended with {process.returncode} while starting\n{self.log_tail()}"
                )
        return self.ready()

    def _reap(self) -> None:
        for process in self._started:
            process.wait(timeout=20)
            reaper.forget(process.pid)
        self._started.clear()


def program(name: str, package: str, *also: str) -> str:
    """The path of an executable, or `Missing` naming the Debian package that has it."""
    places = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", *also])
    found = shutil.which(name, path=places)
    if not found:
        raise Missing(f"{name} is not installed: apt-get install {package}")
    return found
