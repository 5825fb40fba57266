"""A sink that takes rows and forgets them, for both sides: as a connector, and written by hand."""

from importlib.metadata import EntryPoint

from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from penstock.contracts import Connector, Promise, Receipt, Sink, Writer
from penstock.contracts import connector as configured


class DiscardWriter(Writer):
    def __init__(self):
        self.rows = 0

    def write(self, rows):
        self.rows += rows.num_rows

    def close(self):
        return Receipt(rows=self.rows)

    def abort(self):
        pass


@configured
class DiscardSink(Sink):
    """Forgets."""

    def promise(self):
        return Promise(replay="idempotent", atomic="batch")

    def open(self, batch, partition, attempt, schema):
        return DiscardWriter()


connector = Connector(name="discard", sink=DiscardSink)


def install():
    """Make the connector known to this process without a distribution."""
    from penstock.registry import lookup

    point = EntryPoint("discard", f"{__name__}:connector", "penstock.connectors")
    lookup._entries()["connectors"]["discard"] = [lookup.Entry("discard", "bench", "0", point)]


class BareWriter(DataSourceStreamArrowWriter):
    def write(self, iterator):
        for batch in iterator:
            batch.num_rows  # noqa: B018
        return WriterCommitMessage()

    def commit(self, messages, batchId):  # noqa: N803
        pass

    def abort(self, messages, batchId):  # noqa: N803
        pass


class BareDiscard(DataSource):
    @classmethod
    def name(cls):
        return "bare_discard"

    def streamWriter(self, schema, overwrite):  # noqa: N802
        return BareWriter()
