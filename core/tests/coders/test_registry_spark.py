"""A registry behind a running query: what it learns, lacks and does not answer, without a restart."""

import io
import json
from pathlib import Path

import fastavro
import pytest

import penstock as pen
from penstock.conformance.waiting import until
from penstock.spark.deadletters import DeadLetters

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ID = {"name": "id", "type": "long"}
FIRST = {"type": "record", "name": "Order", "fields": [ID]}
SECOND = {**FIRST, "fields": [ID, {"name": "note", "type": "string", "default": ""}]}
THIRD = {**FIRST, "fields": [*SECOND["fields"], {"name": "more", "type": "int", "default": 0}]}


class Orders:
    """A folder of records, a file each, written under a registry's ids."""

    def __init__(self, folder, registry):
        self.folder, self.registry = folder, registry
        folder.mkdir()

    def register(self, schema):
        return self.registry.register({"schema": json.dumps(schema)}, "orders-value")["id"]

    def send(self, number, schema, order):
        out = io.BytesIO(b"\x00" + number.to_bytes(4, "big"))
        out.seek(5)
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), order)
        hidden = self.folder / f".{order['id']}"
        hidden.write_bytes(out.getvalue())
        hidden.rename(self.folder / f"{order['id']}")


def received(folder):
    """The orders a sink has published, in the order of their ids."""
    files = [p for p in Path(folder).glob("*") if p.is_file() and p.name[0] not in "._"]
    found = [json.loads(line) for p in files for line in p.read_text().splitlines()]
    return sorted(((order["id"], order["note"]) for order in found), key=lambda order: order[0])


def test_a_running_query_learns_versions_and_bridges_an_outage(spark, tmp_path, registry):
    orders = Orders(tmp_path / "in", registry)
    first = orders.register(FIRST)
    settings = {"registry.url": registry.url, "registry.max.retries": "0"}
    handle = (
        pen.pipeline("orders")
        .source("localfile", path=str(orders.folder), format="whole")
        .decode("avro", schema="id BIGINT, note STRING", framing="registry", **settings)
        .sink("localfile", path=str(tmp_path / "out"), format="json")
        .on_error("dead-letter", retries=1000, backoff=0.05, longest=0.2)
        .run(checkpoint=tmp_path / "state", spark=spark)
    )

    def arrives(*notes):
        want = list(notes)
        until(lambda: received(tmp_path / "out") == want, within=30, why=f"{want} is there")

    try:
        orders.send(first, FIRST, {"id": 1})
        arrives((1, None))

        second = orders.register(SECOND)
        orders.send(second, SECOND, {"id": 2, "note": "new"})
        arrives((1, None), (2, "new"))

        orders.send(999, FIRST, {"id": 3})
        letters = DeadLetters(handle.checkpoint.dead_letters)
        until(lambda: letters.table().num_rows, within=30, why="the unknown id is a dead letter")

        third = orders.register(THIRD)
        asked = f"GET /schemas/ids/{third}"
        registry.failing = 10**9
        orders.send(third, THIRD, {"id": 4, "note": "late", "more": 7})
        until(lambda: registry.requests.count(asked) > 2, within=30, why="it is asked again")
        registry.failing = 0
        arrives((1, None), (2, "new"), (4, "late"))
    finally:
        handle.stop()

    (letter,) = letters.table()["letter"].to_pylist()
    told = letters.show(letter)
    assert (told["node"], told["kind"]) == ("decode-avro", "RegistryError")
    assert "the schema 999" in told["message"]
    counts = handle.counts()["decode-avro"]
    assert (counts.rows_in, counts.rows_out, counts.errors) == (4, 3, 1)
    assert counts.retried > 1
