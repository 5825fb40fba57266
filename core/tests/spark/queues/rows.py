"""Rows and leases made by hand."""

import pyarrow as pa

from penstock.contracts import ENVELOPE, Lease
from penstock.spark.queues.segments import spooled


class Given(Lease):
    def __init__(self, ids, values=None, redelivered=False):
        values = values or [f"payload of {i}".encode() for i in ids]
        made = [{"id": i, "value": v} for i, v in zip(ids, values, strict=True)]
        self.rows = pa.RecordBatch.from_pylist(made, schema=ENVELOPE)
        self.redelivered = pa.array([redelivered] * len(ids), pa.bool_())
        self.acknowledged = False

    def acknowledge(self):
        self.acknowledged = True

    def release(self):
        raise AssertionError("not expected here")


def table(*ids, **how):
    return pa.Table.from_batches([spooled(Given(list(ids), **how))])
