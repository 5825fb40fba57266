"""A small disk of its own, that can be full for real."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class Disk:
    """A disk of one mebibyte at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / ".ballast"

    def mounted(self) -> bool:
        """Mount it; False where only root may."""
        return shutil.which("mount") is not None and self._mount("size=1m")

    def fill(self) -> None:
        """Leave no room at all."""
        with contextlib.suppress(OSError), self._ballast.open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)

    def relieve(self) -> None:
        """Give room again: what `fill` took, and more."""
        self._ballast.unlink(missing_ok=True)
        assert self._mount("remount,size=64m")

    def unmount(self) -> None:
        """Out of sight now, and for good when Java has closed what it could not write."""
        assert self._done("umount", "--lazy")

    def _mount(self, options: str) -> bool:
        return self._done("mount", "-t", "tmpfs", "-o", options, "penstock")

    def _done(self, *command: str) -> bool:
        done = subprocess.run([*command, str(self.path)], capture_output=True)
        return done.returncode == 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path / "disk")
    made.path.mkdir()
    if not made.mounted():
        pytest.skip("only root can mount a small disk here")
    yield made
    made.unmount()
