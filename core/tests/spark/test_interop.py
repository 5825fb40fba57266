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


def test_a_coder_decodes_inside_the_reader(spark):
    options = {"rows": "10", "coder": "json", "coder.schema": "id long"}
    frame = spark.read.format("penstock.generator").options(**options).load()
    assert frame.columns == ["id", "event_time", "_pen"]
    rows = frame.orderBy("id").collect()
    assert [row.id for row in rows] == list(range(10))
    assert rows[3]._pen.stamp.position == 3


def test_a_record_that_the_coder_of_a_source_refuses_says_why(spark):
    options = {"rows": "2", "format": "text", "coder": "json", "coder.schema": "id long"}
    row = spark.read.format("penstock.generator").options(**options).load().first()
    assert row.id is None
    assert bytes(row._pen.error.original) == b"record 0"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"coder": "jsno", "coder.schema": "id long"}, "json"),
        ({"coder.schema": "id long"}, "no coder"),
        ({"coder": "json", "coder.shema": "id long"}, "did you mean 'schema'"),
    ],
)
def test_a_coder_that_cannot_be_is_a_clear_error(spark, options, said):
    with pytest.raises(Exception, match=said):
        spark.read.format("penstock.generator").options(rows="1", **options).load()


def test_both_ends_of_a_pipeline_take_a_coder(spark, tmp_path):
    flow = (
        pen.pipeline("ends")
        .source("generator", rows=20, coder="json", coder_options={"schema": "id long"})
        .where("id >= 15")
        .sink("localfile", path=str(tmp_path / "out"), coder="json")
    )
    flow.run(str(tmp_path / "state"), spark=spark)
    lines = [
        line for file in (tmp_path / "out").rglob("*.txt") for line in file.read_text().splitlines()
    ]
    assert sorted(lines) == [f'{{"id":{n}}}' for n in range(15, 20)]
