"""Dead letters on the driver: published with their batch, listed, shown, replayed.

dead-letters/files/<batch>-<uuid>.parquet   written by tasks
dead-letters/published/<batch>.json         names the files that count, by who wrote them
dead-letters/replayed/<letter set>.json     letters that a replay has taken care of
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from attrs import frozen

from penstock.contracts.errors import DeclareError
from penstock.pipeline.letter import LETTER
from penstock.spark.checkpoint import write_whole


@frozen
class DeadLetters:
    """The dead letters of one pipeline, in the folder they are kept in.

    `series` sets a replay's batches apart from the pipeline's own.
    """

    folder: Path
    series: str = ""

    def publish(self, batch: int, names: Mapping[str, Sequence[str]]) -> None:
        """Make a batch's letters count, by the sink or stage whose tasks wrote them.

        Whoever writes again on a replay publishes anew; whoever had finished does not, and what
        it published stays.
        """
        path = self._published(batch)
        before = _named(path)
        if not before and not any(names.values()):
            return
        after = {**before, **{who: sorted(files) for who, files in names.items()}}
        write_whole(path, json.dumps({"by": after}))
        kept = {name for files in after.values() for name in files}
        for file in (self.folder / "files").glob(f"{self.series}{batch}-*.parquet"):
            if file.name not in kept:
                file.unlink(missing_ok=True)

    def of(self, batch: int) -> list[Path]:
        """The files of one batch that count."""
        return self._listed(self._published(batch))

    def _published(self, batch: int) -> Path:
        return self.folder / "published" / f"{self.series}{batch}.json"

    def _listed(self, path: Path) -> list[Path]:
        return [self.folder / "files" / name for files in _named(path).values() for name in files]

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
            yield from self._listed(path)

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
        write_whole(self._settled(name), json.dumps({"letters": letters}))

    def settled(self, name: str) -> bool:
        """Whether these letters were recorded as replayed."""
        return self._settled(name).exists()

    def _settled(self, name: str) -> Path:
        return self.folder / "replayed" / f"{name}.json"


def _number(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


def _named(path: Path) -> dict[str, list[str]]:
    try:
        held: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8"))["by"]
    except FileNotFoundError:
        return {}
    return held
