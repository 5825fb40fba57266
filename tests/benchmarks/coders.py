"""Coders against their peers: record by record in Python, and Spark's own expressions."""

import io
import random
import sys
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa

from penstock.coders.avro.coder import AvroCoder
from penstock.contracts import Coder
from tests.benchmarks import coders_in_spark
from tests.benchmarks.coder_records import BATCH, FLAT, NESTED, SEED, avro, flat, nested, records
from tests.benchmarks.measure import interleaved, rate, row


def main(wanted: list[str]) -> None:
    rows = {
        "avro-decode-flat": lambda name: avro_decode(name, FLAT, flat),
        "avro-decode-nested": lambda name: avro_decode(name, NESTED, nested),
        "avro-encode": avro_encode,
        "avro-decode-bad": avro_decode_bad,
        "protobuf-decode": protobuf_decode,
        **coders_in_spark.ROWS,
    }
    print(f"seed {SEED}", file=sys.stderr)
    for name in wanted or rows:
        rows[name](name)


def decoding(coder: Coder, values: pa.Array) -> None:
    """Decode as a reader does: batch after batch."""
    for start in range(0, len(values), BATCH):
        coder.decode(values.slice(start, BATCH))


def avro_decode(name: str, schema: Any, make: Callable[[int, random.Random], Any]) -> None:
    values = avro(schema, records(make, 4 * BATCH))
    few = values.slice(0, 8_000)
    coder = AvroCoder(schema=schema)
    parsed = fastavro.parse_schema(schema)
    columns = coder.schema()

    def peer() -> None:
        found = [fastavro.schemaless_reader(io.BytesIO(v), parsed, None) for v in few.to_pylist()]
        for each in found:
            if "tags" in each:
                each["tags"] = list(each["tags"].items())
                each["id"] = str(each["id"])
        pa.RecordBatch.from_pylist(found, schema=columns)

    pair = interleaved(
        lambda: rate(len(values), lambda: decoding(coder, values)), lambda: rate(len(few), peer)
    )
    row(name, pair, "thousand records/s")


def avro_encode(name: str) -> None:
    """Of the nested schema, which is the harder one."""
    values = avro(NESTED, records(nested, 2 * BATCH))
    coder = AvroCoder(schema=NESTED)
    rows = coder.decode(values).rows
    few = rows.slice(0, 5_000)
    parsed = fastavro.parse_schema(NESTED)

    def ours() -> None:
        for start in range(0, rows.num_rows, BATCH):
            coder.encode(rows.slice(start, BATCH))

    def peer() -> None:
        made = []
        for each in few.to_pylist():
            each["tags"] = dict(each["tags"])
            out = io.BytesIO()
            fastavro.schemaless_writer(out, parsed, each)
            made.append(out.getvalue())
        pa.array(made, pa.binary())

    pair = interleaved(lambda: rate(rows.num_rows, ours), lambda: rate(few.num_rows, peer))
    row(name, pair, "thousand records/s")


def avro_decode_bad(name: str) -> None:
    """One record in a thousand has its body cut off; the peer is the same data with none."""
    good = avro(FLAT, records(flat, 4 * BATCH))
    pick = random.Random(SEED)
    broken = good.to_pylist()
    for start in range(0, len(broken) - 999, 1000):
        at = start + pick.randrange(1000)
        broken[at] = broken[at][: pick.randrange(1, len(broken[at]))]
    bad = pa.array(broken, pa.binary())
    coder = AvroCoder(schema=FLAT)
    found = sum(len(coder.decode(bad.slice(s, BATCH)).errors) for s in range(0, len(bad), BATCH))
    assert found == len(broken) // 1000, found
    pair = interleaved(
        lambda: rate(len(bad), lambda: decoding(coder, bad)),
        lambda: rate(len(good), lambda: decoding(coder, good)),
    )
    row(name, pair, "thousand records/s", errors=found)


def protobuf_decode(name: str) -> None:
    """Outside Spark, on one core: the decoding alone."""
    coder, values, loop = coders_in_spark.flat_messages(4 * BATCH)
    few = values.slice(0, BATCH)
    batch = pa.RecordBatch.from_arrays([few], names=["value"])
    pair = interleaved(
        lambda: rate(len(values), lambda: decoding(coder, values)),
        lambda: rate(len(few), lambda: list(loop(iter([batch])))),
    )
    row(name, pair, "thousand records/s", against="a loop in Python")
