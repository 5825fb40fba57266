import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from penstock.contracts import ENVELOPE, Context, Limit
from penstock.contracts.errors import EphemeralReadError, OptionError, ReadError, SetupError
from penstock_jms.reading import _times
from penstock_jms.source import CHUNK

from .conftest import Place, headers

pytestmark = pytest.mark.server


def test_a_text_message_becomes_utf8_with_id_and_time(place, raw):
    message = raw.session.createTextMessage("naïve 日本 𝄞")
    raw.send(message)
    (row,) = place.take()
    assert row["value"].decode() == "naïve 日本 𝄞"
    assert row["id"] == str(message.getJMSMessageID())
    assert abs(row["event_time"] - datetime.now(UTC)) < timedelta(minutes=1)
    assert headers(row)["jms.body"] == b"text"
    assert row["stamp"]["origin"] == f"jms:{place.options['queue']}"


def test_every_kind_of_body_keeps_its_place_among_the_others(place, raw):
    session = raw.session
    sent = [session.createBytesMessage(), session.createTextMessage("t"), session.createMessage()]
    sent[0].writeBytes(b"\x00\xff")
    map_message, stream = session.createMapMessage(), session.createStreamMessage()
    map_message.setInt("n", 5)
    map_message.setLong("long", 2**40)
    map_message.setFloat("f", 0.1)
    map_message.setDouble("nan", float("nan"))
    map_message.setBoolean("yes", True)
    map_message.setBytes("raw", b"\x01\x02")
    map_message.setString("text", "ü")
    map_message.setObject("nothing", None)
    stream.writeString("a")
    stream.writeShort(7)
    empty = session.createBytesMessage()
    empty.writeBytes(b"")
    for message in (*sent, map_message, stream, empty):
        raw.send(message)
    rows = place.take()
    kinds = [headers(row).get("jms.body") for row in rows]
    assert kinds == [None, b"text", b"none", b"map", b"stream", None]
    assert [row["value"] for row in rows[:3]] == [b"\x00\xff", b"t", None]
    assert json.loads(rows[3]["value"]) == {
        "n": 5,
        "long": 2**40,
        "f": 0.1,
        "nan": {"$double": "NaN"},
        "yes": True,
        "raw": {"$bytes": "AQI="},
        "text": "ü",
        "nothing": None,
    }
    assert json.loads(rows[4]["value"]) == ["a", 7]
    assert rows[5]["value"] == b""


def _send_object(raw):
    # Reading a java.util.Date would succeed; that its value is null shows that nobody tried.
    message = raw.session.createObjectMessage(raw.client.java("java.util.Date")())
    message.setStringProperty("from", "somebody")
    raw.send(message)


def test_an_object_message_is_never_opened(place, raw):
    _send_object(raw)
    raw.send(raw.session.createTextMessage("after"))
    first, second = place.take(object_messages="row")
    assert first["value"] is None
    assert headers(first) == {"jms.body": b"object", "from": b"somebody"}
    assert first["id"] is not None
    assert second["value"] == b"after"


@pytest.mark.slow
@pytest.mark.parametrize("session", ["transacted", "client"])
def test_an_object_message_moves_aside_when_its_neighbours_are_acknowledged(place, raw, session):
    raw.send(raw.session.createTextMessage("before"))
    _send_object(raw)
    raw.send(raw.session.createTextMessage("after"))
    aside = {"queue": f"{place.options['queue']}.rejected", "object_messages": "row"}
    consumer = place.consumer(session=session)
    lease = place.lease(consumer)
    assert lease.rows.column("value").to_pylist() == [b"before", b"after"]
    if session == "transacted":
        lease.release()
        assert place.take(**aside) == []
        lease = place.lease(consumer)
    lease.acknowledge()
    consumer.close()
    assert place.take() == []
    (moved,) = place.take(**aside)
    assert headers(moved) == {"jms.body": b"object", "from": b"somebody"}


@pytest.mark.slow
def test_object_messages_alone_are_moved_at_once(place, raw):
    _send_object(raw)
    _send_object(raw)
    consumer = place.consumer(reject_to="elsewhere-" + place.options["queue"])
    assert consumer.receive(Limit(), 5) is None
    assert (consumer.unacknowledged(), consumer.depth()) == (0, 0)
    consumer.close()
    moved = place.take(queue="elsewhere-" + place.options["queue"], object_messages="row")
    assert len(moved) == 2


def test_headers_and_typed_properties_reach_the_envelope(place, raw):
    message = raw.session.createTextMessage("x")
    message.setJMSCorrelationID("c-1")
    message.setJMSType("order")
    message.setJMSReplyTo(raw.session.createQueue("answers"))
    message.setStringProperty("JMSXGroupID", "key-1")
    message.setStringProperty("region", "EU")
    message.setIntProperty("n", 5)
    message.setBooleanProperty("urgent", True)
    message.setDoubleProperty("price", 1.5)
    message.setStringProperty("content_HYPHEN_type", "text/plain")
    raw.send(message)
    raw.send(raw.session.createTextMessage("plain"))
    first, second = place.take()
    assert first["key"] == b"key-1"
    assert headers(first) == {
        "jms.body": b"text",
        "JMSCorrelationID": b"c-1",
        "JMSType": b"order",
        "JMSReplyTo": b"queue:answers",
        "content-type": b"text/plain",
        "n": b"5",
        "price": b"1.5",
        "region": b"EU",
        "urgent": b"true",
        "jms.types": b'{"n":"int","price":"double","urgent":"boolean"}',
    }
    assert second["key"] is None
    assert headers(second) == {"jms.body": b"text"}


def test_a_selector_takes_only_what_matches(place, raw):
    for number in range(6):
        message = raw.session.createTextMessage(str(number))
        message.setIntProperty("n", number)
        raw.send(message)
    assert [row["value"] for row in place.take(selector="n >= 4")] == [b"4", b"5"]
    assert len(place.take()) == 4


def test_a_bad_selector_is_told_as_such(place):
    with pytest.raises(ReadError, match="selector") as caught:
        place.consumer(selector="n >")
    assert not caught.value.ephemeral


def test_a_lease_is_whole_and_in_order_over_many_calls_into_java(place):
    count = 2 * CHUNK + 7
    place.write([{"value": str(n).encode()} for n in range(count)])
    consumer = place.consumer()
    lease = place.lease(consumer)
    assert lease.rows.schema.equals(ENVELOPE)
    assert lease.rows.column("value").to_pylist() == [str(n).encode() for n in range(count)]
    assert lease.rows.column("stamp").field("position").to_pylist() == list(range(count))
    assert lease.deliveries.to_pylist() == [1] * count
    assert consumer.unacknowledged() == count
    consumer.close()


def test_a_row_limit_is_kept_and_a_byte_limit_is_passed_by_one_message_at_most(place):
    place.write([{"value": b"x" * 10_000} for _ in range(50)])
    consumer = place.consumer()
    lease = consumer.receive(Limit(rows=17), 10)
    assert lease.rows.num_rows == 17
    lease.release()
    lease = consumer.receive(Limit(bytes=100_000), 10)
    assert 5 <= lease.rows.num_rows <= 10
    lease.release()
    lease = consumer.receive(Limit(bytes=10), 10)
    assert lease.rows.num_rows == 1
    consumer.close()


@pytest.mark.parametrize("session", ["transacted", "client"])
def test_released_messages_come_again_and_are_counted(place, session):
    place.write([{"value": b"a"}, {"value": b"b"}])
    consumer = place.consumer(session=session)
    first = place.lease(consumer)
    assert first.redelivered.to_pylist() == [False, False]
    first.release()
    again = place.lease(consumer)
    assert again.rows.column("value").to_pylist() == [b"a", b"b"]
    assert again.redelivered.to_pylist() == [True, True]
    assert again.deliveries.to_pylist() == [2, 2]
    assert headers(again.rows.to_pylist()[0])["JMSXDeliveryCount"] == b"2"
    again.acknowledge()
    consumer.close()
    assert place.take() == []


def test_an_acknowledgement_covers_its_session_so_there_is_one_lease_at_a_time(place):
    place.write([{"value": b"a"}, {"value": b"b"}])
    consumer = place.consumer()
    lease = place.lease(consumer, rows=1)
    with pytest.raises(ReadError, match="one lease at a time"):
        consumer.receive(Limit(), 0)
    lease.acknowledge()
    place.lease(consumer).acknowledge()
    consumer.close()


def test_a_lease_of_a_closed_consumer_is_void(place):
    place.write([{"value": b"a"}])
    consumer = place.consumer()
    lease = place.lease(consumer)
    consumer.close()
    with pytest.raises(EphemeralReadError, match="void"):
        lease.acknowledge()
    with pytest.raises(EphemeralReadError):
        consumer.receive(Limit(), 0)
    assert [row["value"] for row in place.take()] == [b"a"]


def test_the_depth_is_what_waits_beside_the_open_lease(place):
    place.write([{"value": b"x"} for _ in range(30)])
    consumer = place.consumer()
    assert consumer.depth() == 30
    lease = place.lease(consumer, rows=10)
    assert consumer.depth() == 20
    lease.acknowledge()
    assert consumer.depth() == 20
    consumer.close()


def test_serving_heartbeats_takes_nothing(place):
    place.write([{"value": b"x"}])
    consumer = place.consumer()
    assert consumer.receive(Limit(rows=0), 0.01) is None
    assert place.lease(consumer).redelivered.to_pylist() == [False]
    consumer.close()


def _subscription(place: Place, **changed) -> dict[str, str]:
    options = dict(place.options)
    name = options.pop("queue")
    return {**options, "topic": f"t-{name}", "subscription": "s", **changed}


def test_a_durable_subscription_keeps_what_is_sent_while_nobody_listens(place):
    at = Place({})
    at.options = _subscription(place, client_id=f"c-{place.options['queue']}")
    at.consumer().close()
    sending = Place({})
    sending.options = {
        k: v for k, v in at.options.items() if k not in ("subscription", "client_id")
    }
    sending.write([{"value": b"a"}, {"value": b"b"}])
    assert [row["value"] for row in at.take()] == [b"a", b"b"]
    assert at.take() == []


def test_a_shared_subscription_has_many_receivers_an_unshared_one_has_one(place):
    shared = Place({})
    shared.options = _subscription(place, shared="true")
    first = shared.source().consumer(Context(), 0)
    second = shared.source().consumer(Context(), 1)
    first.close()
    second.close()
    alone = Place({})
    alone.options = _subscription(place, client_id="c")
    with pytest.raises(ReadError, match="one receiver"):
        alone.source().consumer(Context(), 1)


def test_the_event_time_may_come_from_a_property(place):
    then = datetime(2020, 2, 29, 12, 30, 0, 123000, tzinfo=UTC)
    place.write([{"value": b"a", "event_time": then}], event_time_property="at")
    place.write([{"value": b"b"}], number=1, event_time_property="at")
    first, second = place.take(event_time_property="at")
    assert first["event_time"] == then
    assert first["headers"] == []
    assert second["event_time"].year > 2020


@pytest.mark.parametrize("said", ["9" * 15, "9" * 20, "9" * 5000, "-5", "soon", ""])
def test_a_time_that_no_timestamp_holds_is_the_time_of_sending(place, raw, said):
    message = raw.session.createTextMessage("a")
    message.setStringProperty("at", said)
    raw.send(message)
    (row,) = place.take(event_time_property="at")
    assert 2020 < row["event_time"].year < 2200


def test_a_time_of_sending_out_of_range_is_none():
    sent = np.array([0, 1, -1, 2**63 - 1, -(2**63), 253402300799999, 253402300800000])
    times = _times(SimpleNamespace(numbers={"getJMSTimestamp": sent}), None)
    assert [time is not None for time in times.to_pylist()] == [0, 1, 0, 0, 0, 1, 0]


def test_large_messages_behind_a_small_one_do_not_pass_the_byte_limit_by_a_thousand(place):
    place.write([{"value": b"x"}, *[{"value": b"x" * 50_000} for _ in range(200)]])
    consumer = place.consumer()
    lease = consumer.receive(Limit(bytes=100_000), 10)
    assert lease.rows.num_rows <= 11
    consumer.close()


def test_both_namespaces_of_jms_live_in_one_process(place, jakarta):
    jakarta.options["queue"] = place.options["queue"]
    place.write([{"value": b"from javax", "headers": {"a": b"1"}}])
    (row,) = jakarta.take()
    assert (row["value"], headers(row)) == (b"from javax", {"a": b"1"})
    jakarta.write([{"value": b"from jakarta"}])
    assert [row["value"] for row in place.take()] == [b"from jakarta"]


def test_wrong_credentials_are_refused_for_good_and_not_repeated(place):
    with pytest.raises(ReadError, match="user and password") as caught:
        place.source(password="wrong-canary").check()
    assert not caught.value.ephemeral
    assert "wrong-canary" not in str(caught.value)


def test_a_broker_that_is_away_may_come_back(place):
    with pytest.raises(EphemeralReadError, match="connecting"):
        place.source(url="tcp://127.0.0.1:1").check()


def test_factory_properties_are_set_by_name_whatever_their_case(place):
    options = {**place.options}
    url = options.pop("url")
    at = Place({})
    at.options = {**options, "property.brokerurl": url, "property.consumerWindowSize": "4096"}
    at.source().check()
    with pytest.raises(OptionError, match="no property consumerWindow") as caught:
        at.source(**{"property.consumerWindow": "1"}).check()
    assert "consumerwindowsize" in caught.value.fix
    with pytest.raises(OptionError, match="wrong type"):
        at.source(**{"property.consumerWindowSize": "many"}).check()


def test_a_class_that_is_not_in_the_jars_is_told_by_name(place):
    with pytest.raises(SetupError, match=r"com\.example\.Nothing"):
        place.source(factory="com.example.Nothing").check()


def _jndi(place: Place) -> dict[str, str]:
    return {
        "java.naming.factory.initial": "org.apache.activemq.artemis.jndi.ActiveMQInitialContextFactory",
        "connectionFactory.theFactory": place.options["url"],
        "queue.theQueue": place.options["queue"],
    }


def test_jndi_gives_the_factory_and_the_destination(place, tmp_path):
    place.write([{"value": b"x"}])
    file = tmp_path / "jndi.properties"
    file.write_text("\n".join(f"{name}={value}" for name, value in _jndi(place).items()))
    at = Place({})
    at.options = {k: v for k, v in place.options.items() if k != "url"}
    at.options |= {"jndi_name": "theFactory", "jndi_file": str(file)}
    assert [row["value"] for row in at.take()] == [b"x"]
    at.options |= {"queue": "theQueue", "jndi_destination": "true"}
    assert at.take() == []
    by_option = {f"jndi.{name}": value for name, value in _jndi(place).items()}
    at.options = {k: v for k, v in at.options.items() if k != "jndi_file"} | by_option
    at.source().check()
    with pytest.raises(ReadError, match="jndi_name"):
        at.source(jndi_name="another").check()


def test_rows_are_plain_arrow_without_a_trace_of_java(place):
    place.write([{"value": b"x"}])
    consumer = place.consumer()
    rows = place.lease(consumer).rows
    consumer.close()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    assert pa.ipc.open_stream(sink.getvalue()).read_all().to_pylist() == rows.to_pylist()
