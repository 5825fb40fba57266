"""One batch into a queue's sink, as one task does it."""

import pyarrow as pa

from penstock.contracts import ENVELOPE, Batch, Context, Sink


def written(sink: Sink, number: int, ids: tuple[str, ...]) -> None:
    """Write ids; the value of each is the id."""
    full = [{**dict.fromkeys(ENVELOPE.names), "value": name.encode(), "id": name} for name in ids]
    schema = sink.accepts(ENVELOPE)
    writer = sink.open(Batch(Context(query="faults"), number), 0, 0, schema)
    try:
        writer.write(pa.RecordBatch.from_pylist(full, schema=ENVELOPE).select(schema.names))
        receipt = writer.close()
    except BaseException:
        writer.abort()
        raise
    assert not receipt.rejected, [each.errors for each in receipt.rejected]
