"""Broken sinks."""

import itertools
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve

from penstock.conformance.reference.folder_sink import FolderSink, FolderWriter
from penstock.conformance.reference.segments import append, listed, locked, publish
from penstock.contracts import Promise, Receipt, Sink
from penstock.contracts.envelope import ENVELOPE, column
from penstock.contracts.errors import WriteError
from twins.making import broken

KEPT = []
COUNT = itertools.count()


@broken("SNK-01", "SNK-09", side="sink")
class WritesEveryTime(FolderSink):
    def done(self, batch):
        return False

    def finish(self, batch, receipts):
        root = Path(self.path)
        with locked(root):
            for receipt in receipts:
                staged = Path(receipt.payload["staged"])
                if staged.exists():
                    tag = staged.stem.split("-")[-1]
                    publish(root, str(receipt.partition), staged, receipt.rows, tag)


@broken("SNK-02", side="sink")
class PublishesTheFirstShare(FolderSink):
    def finish(self, batch, receipts):
        super().finish(batch, receipts[:1])


class Eager(FolderWriter):
    """Shows its rows as they come."""

    def __init__(self, path, *args):
        super().__init__(*args)
        self._root = Path(path)

    def write(self, rows):
        stored = {f.name: column(rows, f.name) for f in ENVELOPE}
        arrays = [
            pa.nulls(rows.num_rows, f.type) if stored[f.name] is None else stored[f.name]
            for f in ENVELOPE
        ]
        append(self._root, "0", pa.RecordBatch.from_arrays(arrays, schema=ENVELOPE))
        self._staged.rows += rows.num_rows


@broken("SNK-03", "SNK-11", side="sink")
class ShowsRowsAtOnce(FolderSink):
    def open(self, batch, partition, attempt, schema):
        return Eager(self.path, self._staging(batch), partition, attempt)

    def finish(self, batch, receipts):
        super().finish(batch, [])


class PublishesItself(FolderWriter):
    def __init__(self, path, staging, partition, attempt):
        super().__init__(staging, partition, attempt)
        self._root, self._split = Path(path), str(partition)

    def close(self):
        receipt = super().close()
        with locked(self._root):
            tag = self._staged.path.stem.split("-")[-1]
            publish(self._root, self._split, self._staged.path, receipt.rows, tag)
        return receipt


@broken("SNK-04", side="sink")
class PublishesInTasks(FolderSink):
    def open(self, batch, partition, attempt, schema):
        return PublishesItself(self.path, self._staging(batch), partition, attempt)

    def finish(self, batch, receipts):
        super().finish(batch, [])


@broken("SNK-05", side="sink")
class PublishesBeforeItMay(FolderSink):
    def promise(self):
        return Promise(replay="idempotent", atomic="batch")

    def open(self, batch, partition, attempt, schema):
        return PublishesItself(self.path, self._staging(batch), partition, attempt)

    def finish(self, batch, receipts):
        super().finish(batch, [])


@broken("SNK-06", side="sink")
class ListensToZombies(FolderSink):
    def finish(self, batch, receipts):
        query = f"{batch.ctx.query}-{len(receipts)}"
        super().finish(evolve(batch, ctx=evolve(batch.ctx, query=query)), receipts)

    def begin(self, batch):
        return False


class DropsNulls(FolderWriter):
    def write(self, rows):
        key = column(rows, "key")
        super().write(rows if key is None else rows.filter(pc.is_valid(key)))


@broken("SNK-07", side="sink")
class DropsRowsWithoutKey(FolderSink):
    def open(self, batch, partition, attempt, schema):
        return DropsNulls(self._staging(batch), partition, attempt)


class DropsBlanks(FolderWriter):
    def write(self, rows):
        super().write(rows.filter(pc.greater(pc.binary_length(column(rows, "value")), 0)))


@broken("SNK-07", side="sink")
class DropsRowsWithoutValue(FolderSink):
    def open(self, batch, partition, attempt, schema):
        return DropsBlanks(self._staging(batch), partition, attempt)


class Hoards(FolderWriter):
    def __init__(self, *args):
        super().__init__(*args)
        self._hoard = []

    def write(self, rows):
        self._hoard.append(rows)

    def close(self):
        for rows in self._hoard:
            super().write(rows)
        return super().close()


@broken("SNK-08", side="sink")
class KeepsAllInMemory(FolderSink):
    def open(self, batch, partition, attempt, schema):
        return Hoards(self._staging(batch), partition, attempt)


@broken("SNK-10", side="sink")
class WantsWhatIsNotThere(FolderSink):
    def accepts(self, schema):
        return super().accepts(schema).append(pa.field(f"column_{next(COUNT)}", pa.string()))


@broken("SNK-10", side="sink")
class TakesWhatever(FolderSink):
    accepts = Sink.accepts


@broken("SNK-12", side="sink")
class LeaksFiles(FolderSink):
    def open(self, batch, partition, attempt, schema):
        writer = super().open(batch, partition, attempt, schema)
        KEPT.append(writer._staged.path.open("rb"))
        return writer


@broken("SNK-12", side="sink")
class LeavesAProcess(FolderSink):
    def open(self, batch, partition, attempt, schema):
        # It ends when this process does, since its input then ends.
        KEPT.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))
        return super().open(batch, partition, attempt, schema)


@broken("SNK-13", side="sink")
class NeedsRows(FolderSink):
    def finish(self, batch, receipts):
        if not receipts:
            raise WriteError("a batch without shares")
        super().finish(batch, receipts)


class Boasts(FolderWriter):
    def close(self):
        receipt = super().close()
        return Receipt(rows=receipt.rows, payload={**receipt.payload, 1: "not JSON"})


@broken("SNK-14", side="sink")
class ReceiptsThatChange(FolderSink):
    def open(self, batch, partition, attempt, schema):
        return Boasts(self._staging(batch), partition, attempt)


class Blanks(FolderWriter):
    blanked = "key"

    def write(self, rows):
        at = rows.schema.get_field_index(self.blanked)
        empty = pa.nulls(rows.num_rows, rows.schema.field(at).type)
        super().write(rows.set_column(at, rows.schema.field(at), empty))


class BlanksHeaders(Blanks):
    blanked = "headers"


@broken("SNK-15", side="sink")
class LosesKeys(FolderSink):
    def open(self, batch, partition, attempt, schema):
        return Blanks(self._staging(batch), partition, attempt)


@broken("SNK-16", side="sink")
class LosesHeaders(FolderSink):
    def open(self, batch, partition, attempt, schema):
        return BlanksHeaders(self._staging(batch), partition, attempt)


@broken("SNK-17", side="sink")
class ReplacesInsteadOfAppending(FolderSink):
    def finish(self, batch, receipts):
        for segments in listed(Path(self.path)).values():
            for segment in segments:
                segment.path.unlink()
        super().finish(batch, receipts)


@broken("SNK-18", "ERR-01", "ERR-02", side="sink")
class RaisesAnything(FolderSink):
    def check(self):
        if not Path(self.path).is_dir():
            raise OSError("no such folder")


@broken("ERR-04", side="sink")
class KnowsABatchByItsNumber(FolderSink):
    """The first batch of a replay has the number of the pipeline's own first batch."""

    def _mark(self, batch):
        return Path(self.path) / ".done" / str(batch.number)


@broken("SHP-02", side="sink")
class ClaimsLessThanItPromises(FolderSink):
    def promise(self):
        return Promise(replay="append", atomic="task")
