import pyarrow as pa
import pytest

from penstock.contracts.envelope import (
    ENVELOPE,
    TIMESTAMP,
    UNDECODED,
    column,
    conform,
    is_envelope,
    spark_form,
    stamps,
    undecoded,
)
from penstock.contracts.errors import SchemaError


def envelopes(count=3):
    positions = pa.array(range(count), pa.int64())
    return pa.RecordBatch.from_arrays(
        [
            pa.array([b"k"] * count),
            pa.array([str(i).encode() for i in range(count)], pa.binary()),
            pa.nulls(count, ENVELOPE.field("headers").type),
            pa.array([0] * count, pa.int64()).cast(pa.timestamp("us")).cast(TIMESTAMP),
            pa.array([f"id-{i}" for i in range(count)]),
            stamps("topic", "0", positions),
        ],
        schema=ENVELOPE,
    )


def test_an_envelope_keeps_everything_when_it_enters_a_pipeline():
    rows = undecoded(envelopes())
    assert rows.schema.equals(UNDECODED)
    assert column(rows, "key").to_pylist() == [b"k"] * 3
    assert column(rows, "stamp")[2].as_py() == {"origin": "topic", "part": "0", "position": 2}
    assert column(rows, "id").to_pylist() == ["id-0", "id-1", "id-2"]


def test_a_column_is_found_at_top_level_first():
    assert column(envelopes(), "id").to_pylist() == ["id-0", "id-1", "id-2"]
    assert column(envelopes(), "nothing") is None


def test_an_envelope_is_recognised_by_names_and_types():
    assert is_envelope(ENVELOPE.with_metadata({"a": "b"}))
    assert not is_envelope(UNDECODED)


def test_spark_gets_the_types_it_knows():
    given = pa.schema(
        [
            pa.field("a", pa.large_string(), nullable=False),
            pa.field("b", pa.list_(pa.field("item", pa.uint16()))),
            pa.field("c", pa.timestamp("ns", tz="Europe/Berlin")),
            pa.field("d", pa.dictionary(pa.int8(), pa.string())),
        ]
    )
    made = spark_form(given)
    assert made.field("a") == pa.field("a", pa.string())
    assert made.field("b").type == pa.list_(pa.field("element", pa.int32()))
    assert made.field("c").type == pa.timestamp("us", tz="UTC")
    assert made.field("d").type == pa.string()


def test_a_type_that_spark_lacks_is_refused_by_column():
    with pytest.raises(SchemaError, match=r"the column a\.b has a type"):
        spark_form(pa.schema([("a", pa.struct([("b", pa.duration("s"))]))]))


def test_rows_are_cast_and_ordered_by_name():
    rows = pa.record_batch({"b": pa.array([1], pa.int32()), "a": pa.array(["x"])})
    wanted = pa.schema([("a", pa.string()), ("b", pa.int64())])
    assert conform(rows, wanted).schema.equals(wanted)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (pa.record_batch({"x": pa.array([1])}), "the column a is missing"),
        (pa.record_batch({"a": pa.array(["no number"])}), "the column a cannot be cast"),
    ],
)
def test_rows_that_do_not_fit_say_which_column(rows, message):
    with pytest.raises(SchemaError, match=message):
        conform(rows, pa.schema([("a", pa.int64())]))
