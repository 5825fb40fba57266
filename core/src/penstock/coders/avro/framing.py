"""Avro single objects: a mark and the schema's fingerprint before the record."""

from __future__ import annotations

from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from penstock.coders.framing import grouped_rows, headers
from penstock.coders.groups import Rows
from penstock.contracts.coder import RowError

SINGLE = b"\xc3\x01"
SINGLE_HEADER = 10


def fingerprint(schema: Any) -> bytes:
    """The eight bytes that name a schema in a single object (CRC-64-AVRO, little endian)."""
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    return bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))


def fingerprints(
    values: pa.Array, known: list[bytes]
) -> tuple[list[tuple[int, Rows]], list[RowError]]:
    """The rows written with each known schema (by its place), and the others as errors."""
    head, whole = headers(values, SINGLE_HEADER)
    marked = whole & (head[:, :2] == np.frombuffer(SINGLE, np.uint8)).all(1)
    which = np.full(len(values), -1, np.int64)
    for place, each in enumerate(known):
        which[marked & (head[:, 2:] == np.frombuffer(each, np.uint8)).all(1)] = place
    groups, errors = grouped_rows(which, which >= 0, "")
    for index, error in enumerate(errors):
        said = "it is no Avro single object"
        if marked[error.row]:
            said = "it was written with a schema whose fingerprint is not among those given"
        errors[index] = RowError(error.row, said)
    return groups, errors
