"""One task's share of a batch: the fused chain, the sink's writer, and what failed on the way.

All of this runs on workers, inside `mapInArrow`; what it has to say travels back as one row of
JSON per task.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve, field, frozen
from pyspark import TaskContext

from penstock.contracts.envelope import spark_form
from penstock.contracts.errors import WriteError
from penstock.contracts.sink import Batch, Receipt, Sink
from penstock.pipeline.chain import Chain, StageFailed
from penstock.pipeline.counts import Count, Counts
from penstock.pipeline.graph import Policy
from penstock.pipeline.plan import Stage
from penstock.spark.failures import speaker, told
from penstock.spark.letters import Letters, refused
from penstock.spark.share import write_share
from penstock.spark.tallies import split_tallies

RECEIPTS = "receipt string"
_RECEIPT = pa.schema([pa.field("receipt", pa.string())])


@frozen
class Share:
    """What a task did.

    Attributes:
        receipt: The sink's receipt, or the staged file.
        counts: Records in and out by stage, those of fused readers included.
        letters: The files of dead letters this task wrote.
    """

    receipt: Receipt
    counts: Counts = field(factory=Counts)
    letters: tuple[str, ...] = ()

    def to_rows(self) -> pa.RecordBatch:
        """As the one row that travels to the driver."""
        return pa.RecordBatch.from_arrays([pa.array([self.to_text()])], schema=_RECEIPT)

    def to_text(self) -> str:
        """As JSON."""
        return json.dumps(
            {
                "rows": self.receipt.rows,
                "payload": self.receipt.payload,
                "partition": self.receipt.partition,
                "counts": self.counts.to_json(),
                "letters": list(self.letters),
            }
        )

    @classmethod
    def from_text(cls, text: str) -> Share:
        """What `to_text` wrote."""
        data: dict[str, Any] = json.loads(text)
        receipt = Receipt(data["rows"], data["payload"], partition=data["partition"])
        return cls(receipt, Counts.from_json(data["counts"]), tuple(data["letters"]))


@frozen
class WriteTask:
    """Writes a share into a sink. Picklable; called by `mapInArrow`."""

    who: str
    node: str
    sink: Sink
    batch: Batch
    chain: Chain | None
    schema: pa.Schema
    letters: str
    series: str = ""
    policy: Policy = field(factory=Policy)

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write, and tell what was done."""
        yield self.run(rows).to_rows()

    def run(self, rows: Iterable[pa.RecordBatch]) -> Share:
        """Write one share on this process."""
        flow = Flow(self.chain, Letters(self.letters, self.batch.number, self.series))
        batch = evolve(self.batch, partitions=self.batch.partitions or _partitions_told())
        try:
            done = write_share(
                self.who, self.sink, batch, self.schema, flow.good(rows), self.policy
            )
            receipt = done.receipt
            self._refused(receipt, flow.letters)
            files = flow.letters.close()
        except BaseException:
            flow.letters.abort()
            raise
        lost = sum(r.rows.num_rows for r in receipt.rejected)
        count = Count(rows_in=receipt.rows + lost, retried=done.retried)
        skips = self.policy.action == "skip"
        count = evolve(count, skipped=lost) if skips else evolve(count, errors=lost)
        counted = Counts({self.node: count})
        return Share(evolve(receipt, rejected=()), flow.counts + counted, files)

    def _refused(self, receipt: Receipt, letters: Letters) -> None:
        """What the policy says of rows that the sink refused one by one."""
        if receipt.rejected and self.policy.action == "stop":
            raise StageFailed(
                f"the sink refused a record: {receipt.rejected[0].errors[0]}",
                who=f"{self.node} ({self.who})",
                fix='mend the data or the sink, or declare on_error="dead-letter"',
            )
        if self.policy.action == "dead-letter":
            for rejected in receipt.rejected:
                letters.add(refused(rejected, self.node))


def write_task(
    stage: Stage,
    batch: Batch,
    chain: Chain | None,
    schema: pa.Schema,
    letters: str = "",
    series: str = "",
) -> WriteTask:
    """The task of a sink's stage for rows of a schema.

    Raises:
        SchemaError: the sink does not take such rows.
    """
    who = speaker(stage.what)
    with told(who, stage.work, "taking the schema", WriteError):
        accepted = stage.work.accepts(schema)
    return WriteTask(
        who, stage.node, stage.work, batch, chain, accepted, letters, series, stage.policy
    )


@frozen
class StageTask:
    """Writes a share of a processed batch to a file that every sink and every replay reads."""

    folder: str
    batch: int
    chain: Chain | None
    schema: pa.Schema
    letters: str
    series: str = ""

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Stage, and tell the file's name."""
        flow = Flow(self.chain, Letters(self.letters, self.batch, self.series))
        task = TaskContext.get()
        partition = task.partitionId() if task else 0
        path = Path(self.folder) / f"{partition:05d}-{uuid.uuid4().hex}.arrow"
        path.parent.mkdir(parents=True, exist_ok=True)
        schema = spark_form(self.schema)
        count = 0
        try:
            with open(path, "wb") as file, pa.ipc.new_stream(file, schema) as stream:
                for each in flow.good(rows):
                    stream.write_batch(each.cast(schema) if each.schema != schema else each)
                    count += each.num_rows
                file.flush()
                os.fsync(file.fileno())
            files = flow.letters.close()
        except BaseException:
            path.unlink(missing_ok=True)
            flow.letters.abort()
            raise
        receipt = Receipt(count, {"file": path.name}, partition=partition)
        yield Share(receipt, flow.counts, files).to_rows()


@frozen
class StagedShare:
    """Gives the rows of one staged file to a task that writes them; no JVM in between."""

    files: tuple[str, ...]
    task: WriteTask

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The range's one row says which file."""
        for each in rows:
            for index in each.column(0).to_pylist():
                yield from self.task(read_staged(self.files[index]))


def read_staged(path: str) -> Iterator[pa.RecordBatch]:
    """The rows of a staged file, memory-mapped."""
    with pa.memory_map(path) as file, pa.ipc.open_stream(file) as stream:
        yield from stream


class Flow:
    """Rows on their way through a task: the chain applied, tallies and failures taken out."""

    def __init__(self, chain: Chain | None, letters: Letters) -> None:
        self.chain = chain
        self.letters = letters
        self.counts = Counts()

    def good(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows to write; what failed goes to the letters, tallies to the counts."""
        for each in rows:
            done = each
            if self.chain is not None:
                done, counts = self.chain.run(each)
                self.counts = self.counts + counts
            at = done.schema.get_field_index("_pen")
            if at >= 0:
                error = done.column(at).field("error")
                if error.null_count != len(error):
                    failed = pc.is_valid(error)
                    done, bad = done.filter(pc.invert(failed)), done.filter(failed)
                    bad, counts = split_tallies(bad)
                    self.counts = self.counts + counts
                    if bad.num_rows:
                        self.letters.add(bad)
            if done.num_rows:
                yield done


def _partitions_told() -> int | None:
    """How many tasks write this batch, as the drain told it to its tasks."""
    task = TaskContext.get()
    told = task.getLocalProperty(PARTITIONS) if task else None
    return int(told) if told else None


PARTITIONS = "penstock.partitions"
"""The local property through which the drain tells its tasks how many they are."""
