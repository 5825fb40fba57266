"""The clause of sinks whose rows have columns of their own."""

from __future__ import annotations

import random

import pyarrow as pa
from attrs import evolve

from penstock.conformance.clauses import clause
from penstock.conformance.random_rows import random_rows
from penstock.conformance.rig import Rig
from penstock.contracts import ReplayableSource
from penstock.contracts.envelope import TIMESTAMP, conform, spark_form

ROWS = 200
COLUMNS = spark_form(
    pa.schema(
        [
            ("number", pa.int64()),
            ("small", pa.int32()),
            ("ratio", pa.float64()),
            ("name", pa.string()),
            ("ok", pa.bool_()),
            ("price", pa.decimal128(10, 2)),
            ("day", pa.date32()),
            ("at", TIMESTAMP),
            ("raw", pa.binary()),
            ("tags", pa.list_(pa.string())),
            ("place", pa.struct([("street", pa.string()), ("zip", pa.int32())])),
        ]
    )
)


class TypedClauses:
    """What becomes of types on the way there and back."""

    @clause("SNK-19", "columns come back with their types", needs="typed", sides=("sink",))
    def test_snk_19_types(self, rig: Rig) -> None:
        """Rows with columns of their own (numbers, decimals, text, bytes, instants, days, lists,
        structs; nulls among them; random, from the printed seed) are written and read back: the
        same rows, in the same types. The case says with `typed=` which options make it so."""
        given = rig.case.typed
        assert given is not None, "typed is declared: the case must give typed="
        rows = random_rows(COLUMNS, ROWS, random.Random(rig.seed))
        number = COLUMNS.get_field_index("number")
        rows = rows.set_column(number, COLUMNS.field(number), pa.array(range(ROWS), pa.int64()))
        sink, batch = rig.sink(**given), rig.batch(partitions=1)
        wanted = sink.accepts(rows.schema)
        sink.begin(batch)
        writer = sink.open(batch, 0, 0, wanted)
        writer.write(conform(rows, wanted))
        sink.finish(batch, [evolve(writer.close(), partition=0)])
        found = _read(rig, rig.source(**given))
        missing = [name for name in COLUMNS.names if name not in found.schema.names]
        assert not missing, f"columns are gone: {missing}"
        found = found.select(COLUMNS.names).sort_by("number")
        for field in COLUMNS:
            came = found.schema.field(field.name).type
            assert came == field.type, f"{field.name} was {field.type} and is {came}"
            before, after = rows.column(field.name).to_pylist(), found[field.name].to_pylist()
            changed = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
            assert not changed, f"{field.name}: {changed[0][0]!r} became {changed[0][1]!r}"


def _read(rig: Rig, source: object) -> pa.Table:
    assert isinstance(source, ReplayableSource), "typed rows are read back by a replayable source"
    with rig.planner(source) as planner:
        batches = rig.read(planner.plan(planner.initial(), planner.final()), source)
    assert batches, "nothing was read"
    return pa.Table.from_batches(batches)
