"""What Penstock keeps beside Spark's own checkpoint, and where.

<checkpoint>/            Spark's: offsets, commits, metadata, state
<state>/                 ours, by default <checkpoint>/penstock
  pipeline.json          whose checkpoint this is
  nodes/<node>/          what a source or sink remembers
  batches/<n>.log        the batch's layout, and which sinks have finished it
  stage/<n>/             a processed batch that several sinks or a replay must share
  dead-letters/          records that failed
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlparse

from penstock.contracts.durable import sync_folder
from penstock.contracts.errors import LayoutError, MaterialiseError, SetupError
from penstock.spark.commitlog import local_path

_KEPT_BATCHES = 10


def write_whole(path: Path, text: str) -> None:
    """Replace a small file at once, so that a reader sees the old or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with open(draft, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    sync_folder(path.parent)


def folder_name(name: str) -> str:
    """A node's name as that of its folder: plain ones as they are, no two alike."""
    odd = r"[^\w.-]" if name.strip(".") else r"."
    return re.sub(odd, lambda found: quote(found[0], safe="").replace(".", "%2E"), name)


class Checkpoint:
    """The folders of one pipeline's run."""

    def __init__(self, location: str, state: str | None = None) -> None:
        if urlparse(location).scheme == "":
            location = str(Path(location).absolute())
        self.location = location
        folder = local_path(state if state is not None else location)
        if folder is None:
            raise SetupError(
                "the state folder must be a filesystem that driver and executors share",
                got=state or location,
                fix="keep the checkpoint where it is and add state=/a/shared/folder",
            )
        self.state = (Path(folder) if state is not None else Path(folder, "penstock")).absolute()

    def node(self, name: str) -> str:
        """The durable folder of one node."""
        folder = self.state / "nodes" / folder_name(name)
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder)

    @property
    def dead_letters(self) -> Path:
        """Where dead letters are kept by default."""
        return self.state / "dead-letters"

    def stage(self, batch: int) -> Path:
        """Where a batch is staged."""
        return self.state / "stage" / str(batch)

    def claim(self, pipeline: str) -> str:
        """Make this checkpoint the pipeline's, or see that it is.

        Returns:
            The id of the pipeline's run over this checkpoint, the same after each restart.

        Raises:
            MaterialiseError: it belongs to another pipeline.
        """
        path = self.state / "pipeline.json"
        if not path.exists():
            write_whole(path, json.dumps({"name": pipeline, "id": str(uuid.uuid4())}))
        owner = json.loads(path.read_text(encoding="utf-8"))
        if owner["name"] != pipeline:
            raise MaterialiseError(
                "the checkpoint belongs to another pipeline",
                expected=pipeline,
                got=owner["name"],
                fix="give this pipeline a checkpoint of its own",
            )
        return str(owner["id"])

    def batch(self, number: int) -> BatchLog:
        """The log of one batch."""
        return BatchLog(self.state / "batches" / f"{number}.log", number)

    def sweep(self, committed: int) -> None:
        """Remove stages and logs that no replay can ask for any more."""
        for folder in (self.state / "stage").glob("*"):
            if folder.name.isdigit() and int(folder.name) < committed:
                shutil.rmtree(folder, ignore_errors=True)
        for log in (self.state / "batches").glob("*.log"):
            if int(log.stem) < committed - _KEPT_BATCHES:
                log.unlink(missing_ok=True)


class BatchLog:
    """What has happened to one batch: lines of JSON, appended; a torn last line does not count."""

    def __init__(self, path: Path, number: int) -> None:
        self.path = path
        self.number = number

    def _lines(self) -> list[dict[str, Any]]:
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        whole = text[: text.rfind("\n") + 1].splitlines()
        return [json.loads(line) for line in whole]

    def _append(self, fact: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab+") as file:
            file.seek(0)
            torn = file.read().rpartition(b"\n")[2]
            if torn:
                file.truncate(file.tell() - len(torn))
            file.write(json.dumps(fact).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self.path.parent)

    def fix_layout(self, sink: str, partitions: int, dealt: str = "") -> None:
        """Log how many tasks write a sink's share, and what deals its records out to them.

        Called before the first of them writes.

        Raises:
            LayoutError: an earlier attempt at this batch had another layout.
        """
        before = self._first("layout", sink, {"tasks": partitions, "dealt": dealt})
        same = before.get("dealt", dealt) == dealt
        if same and before["tasks"] == partitions:
            return
        what = "number of tasks" if same else "layout"
        raise LayoutError(
            f"the batch {self.number} was begun with another {what}",
            who=sink,
            expected=_laid(before["tasks"], before.get("dealt", dealt)),
            got=_laid(partitions, dealt),
            fix="restart with the keys and the parallelism the pipeline had when it was stopped; "
            "they may be changed once this batch is done",
        )

    def fix_reader(self, source: str, reader: str) -> None:
        """Log who reads a source's share: each lays its rows out in tasks in its own way.

        Raises:
            LayoutError: in an earlier attempt at this batch it was another.
        """
        before = self._first("reader", source, {"by": reader})["by"]
        if before != reader:
            raise LayoutError(
                f"the batch {self.number} was begun by another reader",
                who=source,
                expected=before,
                got=f"{reader}: the files are not as they were",
                fix="put the files back as they were when the batch was begun",
            )

    def _first(self, fact: str, node: str, values: dict[str, Any]) -> dict[str, Any]:
        """What the first attempt at this batch logged of a node; this one, if none did."""
        before = next((f for f in self._lines() if f.get(fact) == node), None)
        if before is None:
            self._append({fact: node, **values})
            return values
        return before

    def finished(self, sink: str) -> bool:
        """Whether a sink has finished this batch."""
        return any(fact.get("finished") == sink for fact in self._lines())

    def finish(self, sink: str) -> None:
        """Record that a sink has finished this batch."""
        self._append({"finished": sink})


def _laid(tasks: int, dealt: str) -> str:
    return f"{tasks} tasks" + (f": {dealt}" if dealt else "")
