"""A folder that can go away and come back, as a network mount does."""

from __future__ import annotations

from pathlib import Path


class Mount:
    """`kill` takes the folder away, `start` brings it back with what was in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._away = folder.with_name(f".{folder.name}-away")

    def kill(self) -> None:
        self._folder.rename(self._away)

    def start(self) -> None:
        if self._away.exists():
            self._away.rename(self._folder)
