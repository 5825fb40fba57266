import pyarrow as pa
import pytest

from penstock.contracts import Batch, Context, Promise
from penstock.contracts.envelope import undecoded
from penstock.contracts.errors import EphemeralWriteError, SchemaError, WriteError
from penstock.contracts.options import parse
from penstock_jms.sink import JmsSink

from .conftest import envelopes, headers

pytestmark = pytest.mark.server

DETECT = {"duplicate_detection": "artemis"}


def test_what_is_read_can_be_written_back_as_it_was(place):
    rows = [
        {"value": b"\x00\xff", "key": b"k", "headers": {"a": b"1"}},
        {"value": "ü".encode(), "headers": {"jms.body": b"text", "JMSType": b"order"}},
        {"value": b'{"n":5,"raw":{"$bytes":"AQI="}}', "headers": {"jms.body": b"map"}},
        {"value": b'["a",7,null,1.5,true]', "headers": {"jms.body": b"stream"}},
        {"value": None, "headers": {"jms.body": b"none", "JMSCorrelationID": b"c"}},
        {"value": b"", "headers": {}},
        {
            "value": b"t",
            "headers": {
                "JMSReplyTo": b"topic:answers",
                "JMSPriority": b"7",
                "a.b-c": b"dots and hyphens",
                "bin": b"\x00\xff",
                "n": b"5",
                "urgent": b"true",
                "jms.types": b'{"n":"long","urgent":"boolean"}',
            },
        },
    ]
    assert place.write(rows).rows == 7
    # The priority of the last puts it first.
    last, *first = place.take()
    for sent, came in zip(rows, [*first, last], strict=True):
        assert came["value"] == sent["value"]
        assert came["key"] == sent.get("key")
        assert headers(came) == sent["headers"]


def test_text_columns_become_text_messages(place):
    schema = pa.schema([pa.field("value", pa.string())])
    place.write_batch(pa.RecordBatch.from_pylist([{"value": "ü"}, {"value": None}], schema=schema))
    first, second = place.take()
    assert (first["value"].decode(), headers(first)["jms.body"]) == ("ü", b"text")
    assert (second["value"], headers(second)["jms.body"]) == (None, b"text")


def test_rows_in_a_pipelines_form_keep_key_and_headers(place):
    rows = undecoded(envelopes([{"value": b"x", "key": b"k", "headers": {"a": b"1"}}]))
    place.write_batch(rows)
    (row,) = place.take()
    assert (row["key"], headers(row)) == (b"k", {"a": b"1"})


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"value": b"\xff", "headers": {"jms.body": b"text"}}, "UTF-8"),
        ({"value": b'{"a":[1]}', "headers": {"jms.body": b"map"}}, "nested"),
        ({"value": b"[", "headers": {"jms.body": b"stream"}}, "no JSON"),
        ({"value": None, "headers": {"jms.body": b"object"}}, "never made"),
        ({"value": b"", "headers": {"jms.body": b"strange"}}, "no kind"),
        ({"value": b"", "headers": {"a b": b"1"}}, "cannot be a JMS property"),
        ({"value": b"", "headers": {"n": b"x", "jms.types": b'{"n":"int"}'}}, "is no int"),
        ({"value": b"", "headers": {"JMSPriority": b"77"}}, "0 to 9"),
        ({"value": b"", "key": b"\xff"}, "key"),
        ({"value": b'{"a":{"$double":"x"}}', "headers": {"jms.body": b"map"}}, "no number"),
        ({"value": b'[{"$double":1}]', "headers": {"jms.body": b"stream"}}, "no number"),
        ({"value": b"", "headers": {"JMSXGroupSeq": b"x"}}, "is no int"),
        ({"value": b"", "headers": {"JMSXGroupSeq": b"99999999999"}}, "is no int"),
        ({"value": b"", "headers": {"n": b"1", "jms.types": b'{"n":["int"]}'}}, "is no"),
        ({"value": b"", "headers": {"AND": b"1"}}, "cannot be a JMS property"),
        ({"value": b"", "headers": {"NULL": b"1"}}, "cannot be a JMS property"),
    ],
)
def test_a_bad_row_is_rejected_and_its_neighbours_are_sent(place, row, says):
    receipt = place.write([{"value": b"before"}, row, {"value": b"after"}])
    assert receipt.rows == 2
    (rejected,) = receipt.rejected
    assert rejected.rows.num_rows == 1
    assert rejected.rows.column("value").to_pylist() == [row["value"]]
    assert says in rejected.errors[0]
    assert [each["value"] for each in place.take()] == [b"before", b"after"]


def test_an_aborted_share_is_never_seen(place):
    sink = place.sink()
    rows = envelopes([{"value": b"x"}] * 100)
    schema = sink.accepts(rows.schema)
    writer = sink.open(Batch(Context(query="q"), 0), 0, 0, schema)
    writer.write(rows.select(schema.names))
    assert place.take() == []
    writer.abort()
    writer.abort()
    assert place.take() == []


def test_a_replayed_share_is_there_once_with_duplicate_detection(place):
    rows = [{"value": str(n).encode()} for n in range(50)]
    for _ in range(3):
        assert place.write(rows, number=4, **DETECT).rows == 50
    place.write(rows[:2], number=5, **DETECT)
    place.write(rows[:2], number=4, query="another", **DETECT)
    assert len(place.take()) == 54


def test_a_share_cut_into_transactions_is_there_once_after_a_replay(place):
    rows = [{"value": str(n).encode()} for n in range(25)]
    cut = {**DETECT, "transaction_rows": 10}
    sink = place.sink(**cut)
    given = envelopes(rows)
    schema = sink.accepts(given.schema)
    dying = sink.open(Batch(Context(query="q"), 0), 0, 0, schema)
    dying.write(given.select(schema.names))
    dying.abort()
    assert place.write(rows, **cut).rows == 25
    assert [row["value"] for row in place.take()] == [row["value"] for row in rows]


def test_a_duplicate_id_of_another_sending_is_not_passed_on(place):
    rows = [{"value": b"x", "headers": {"_AMQ_DUPL_ID": b"old"}}]
    place.write(rows, number=1, **DETECT)
    place.write(rows, number=2, **DETECT)
    assert [headers(row) for row in place.take()] == [{}, {}]


def test_without_duplicate_detection_a_replay_appends(place):
    place.write([{"value": b"x"}])
    place.write([{"value": b"x"}])
    assert len(place.take()) == 2


@pytest.mark.parametrize(
    ("given", "promised"),
    [
        ({}, Promise("append", "task")),
        (DETECT, Promise("idempotent", "task")),
        ({"transaction_rows": "10"}, Promise("append", "record")),
        ({**DETECT, "transaction_rows": "10"}, Promise("idempotent", "record")),
    ],
)
def test_the_promise_follows_the_options(given, promised):
    assert parse(JmsSink, {"queue": "q", **given}).promise() == promised


def test_only_chosen_headers_travel_and_the_key_may_stay(place):
    rows = [{"value": b"x", "key": b"k", "headers": {"a": b"1", "b": b"2"}}]
    place.write(rows, headers="b", key_as="none")
    (row,) = place.take()
    assert (row["key"], headers(row)) == (None, {"b": b"2"})


def test_a_message_that_lives_shortly_is_gone(place):
    place.write([{"value": b"x"}], time_to_live="60 s", persistent="false")
    (row,) = place.take()
    assert {"JMSExpiration", "JMSDeliveryMode"} <= set(headers(row))


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([("id", pa.string())]),
        pa.schema([("value", pa.int64())]),
        pa.schema([("value", pa.binary()), ("total", pa.int64())]),
    ],
)
def test_rows_without_one_body_are_refused_at_analysis(schema):
    with pytest.raises(SchemaError, match="to_json"):
        parse(JmsSink, {"queue": "q"}).accepts(schema)


def test_a_check_leaves_nothing_and_tells_bad_credentials(place):
    place.sink().check()
    assert place.take() == []
    with pytest.raises(WriteError, match="user and password") as caught:
        place.sink(password="wrong").check()
    assert not caught.value.ephemeral


def test_a_broker_that_is_away_is_an_ephemeral_error(place):
    with pytest.raises(EphemeralWriteError):
        place.write([{"value": b"x"}], url="tcp://127.0.0.1:1")
