import pytest

import penstock as pen
from penstock.contracts.errors import SchemaError

pytestmark = pytest.mark.spark


def test_a_connector_is_a_frame(spark):
    frame = pen.read(spark, "generator", rows=10, format="text")
    assert sorted(bytes(row.value) for row in frame.collect())[0] == b"record 0"


def test_a_frame_of_envelopes_is_decoded_with_its_stamps(spark):
    frame = pen.decode(pen.read(spark, "generator", rows=10), "json", schema="id long")
    rows = frame.orderBy("id").collect()
    assert [row.id for row in rows] == list(range(10))
    assert rows[3]._pen.stamp.position == 3


def test_any_frame_with_a_binary_value_is_decoded_and_bad_records_say_why(spark):
    frame = spark.createDataFrame([(b'{"id": 1}',), (b"not json",)], "value binary")
    good, bad = sorted(
        pen.decode(frame, "json", schema="id long").collect(), key=lambda r: r.id is None
    )
    assert good.id == 1
    assert bytes(bad._pen.error.original) == b"not json"


def test_a_frame_without_a_value_says_what_is_missing(spark):
    with pytest.raises(SchemaError, match="binary column named value"):
        pen.decode(spark.range(1), "json", schema="id long")
