"""Dead letters on the driver: published with their batch, listed, shown, replayed.

dead-letters/files/<batch>-<uuid>.parquet   written by tasks
dead-letters/published/<batch>.json         names the files that count
dead-letters/replayed/<letter set>.json     letters that a replay has taken care of
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from attrs import frozen

from penstock.contracts.errors import DeclareError
from penstock.spark.checkpoint import write_whole
from penstock.spark.letters import LETTER


@frozen
class DeadLetters:
    """The dead letters of one pipeline, in the folder they are kept in.

    `series` sets a replay's batches apart from the pipeline's own.
    """

    folder: Path
    series: str = ""

    def publish(self, batch: int, names: list[str]) -> None:
        """Make a batch's letters count; a replay of the batch publishes its own instead."""
        path = self.folder / "published" / f"{self.series}{batch}.json"
        if not names and not path.exists():
            return
        kept = set(names)
        write_whole(path, json.dumps({"files": sorted(kept)}))
        for file in (self.folder / "files").glob(f"{self.series}{batch}-*.parquet"):
            if file.name not in kept:
                file.unlink(missing_ok=True)

    def table(self) -> pa.Table:
        """Every letter that counts and was not replayed yet, oldest batch first."""
        tables = [pq.read_table(file) for file in self._files()]
        if not tables:
            return LETTER.empty_table()
        everything = pa.concat_tables(tables)
        gone = self._replayed()
        if gone:
            known = pc.is_in(everything["letter"], value_set=pa.array(sorted(gone)))
            everything = everything.filter(pc.invert(known))
        return everything

    def _files(self) -> Iterator[Path]:
        published = (self.folder / "published").glob("*.json")
        for path in sorted(
            published, key=lambda path: (path.stem.rpartition("-")[0], _number(path))
        ):
            names = json.loads(path.read_text(encoding="utf-8"))["files"]
            yield from (self.folder / "files" / name for name in names)

    def _replayed(self) -> set[str]:
        found: set[str] = set()
        for path in (self.folder / "replayed").glob("*.json"):
            found |= set(json.loads(path.read_text(encoding="utf-8"))["letters"])
        return found

    def show(self, letter: str) -> dict[str, Any]:
        """One letter in full.

        Raises:
            DeclareError: there is none of this name.
        """
        table = self.table()
        rows: list[dict[str, Any]] = table.filter(pc.equal(table["letter"], letter)).to_pylist()
        if not rows:
            raise DeclareError(
                f"there is no dead letter {letter!r}",
                fix="`penstock dlq list` shows those that wait",
            )
        return rows[0]

    def settle(self, name: str, letters: list[str]) -> None:
        """Record that letters were replayed, so that they no longer wait."""
        write_whole(self.folder / "replayed" / f"{name}.json", json.dumps({"letters": letters}))


def _number(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])
