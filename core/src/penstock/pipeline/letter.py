"""What a dead letter holds, whichever sink it goes to."""

from __future__ import annotations

import pyarrow as pa

from penstock.contracts.envelope import ERROR, HEADERS, STAMP, TIMESTAMP

LETTER = pa.schema(
    [
        pa.field("letter", pa.string()),
        pa.field("batch", pa.int64()),
        *list(ERROR),
        pa.field("id", pa.string()),
        pa.field("key", pa.binary()),
        pa.field("headers", HEADERS),
        pa.field("event_time", TIMESTAMP),
        pa.field("stamp", STAMP),
    ]
)
"""A dead letter: its own name, the batch, why and where it failed, and the record's envelope."""
