"""Options of both ends: what is refused, and how it is said. No server."""

import pickle

import pytest

from penstock.contracts import Secret
from penstock.contracts.errors import OptionError
from penstock.contracts.options import parse, shown
from penstock_kafka import connector
from penstock_kafka.sink import KafkaSink
from penstock_kafka.source import KafkaSource


def source(**given):
    return parse(KafkaSource, {"servers": "localhost:9092", "topics": "t", **given})


def sink(**given):
    return parse(KafkaSink, {"servers": "localhost:9092", "topic": "t", **given})


def test_the_connector_names_both_ends():
    assert (connector.name, connector.source, connector.sink) == ("kafka", KafkaSource, KafkaSink)


def test_topics_come_as_a_list_or_with_commas():
    assert source(topics="a, b").topics == ["a", "b"]
    assert source(topics=["a", "b"]).topics == ["a", "b"]


@pytest.mark.parametrize("more", [{"pattern": "x.*"}, {"partitions": {"t": [0]}}])
def test_two_ways_to_name_topics_contradict_each_other(more):
    with pytest.raises(OptionError, match="which topics"):
        source(**more)


def test_no_topics_are_refused():
    with pytest.raises(OptionError, match="which topics"):
        parse(KafkaSource, {"servers": "localhost:9092"})


@pytest.mark.parametrize(
    "given",
    [
        {"servers": "localhost"},
        {"start": "yesterday"},
        {"start": 5},
        {"start": '{"t": {"0": -4}}'},
        {"partitions": '{"t": []}', "topics": None},
        {"partitions": '{"t": ["x"]}', "topics": None},
        {"pattern": "(", "topics": None},
        {"min_rows": 0},
        {"isolation": "none"},
        {"id_header": "id", "headers": "false"},
        {"id_header": "id", "columns": "spark"},
        {"order": "event_time", "split_rows": 10},
    ],
)
def test_a_wrong_value_is_refused(given):
    merged = {"servers": "localhost:9092", "topics": "t", **given}
    with pytest.raises(OptionError):
        parse(KafkaSource, {k: v for k, v in merged.items() if v is not None})


@pytest.mark.parametrize(
    "name",
    [
        "bootstrap.servers",
        "group.id",
        "enable.auto.commit",
        "isolation.level",
        "transactional.id",
        "enable.idempotence",
        "plugin.library.paths",
        "ssl.engine.location",
        "ssl.providers",
        "sasl.kerberos.kinit.cmd",
        "error_cb",
        "sasl.jaas.config",
        "ssl.truststore.location",
    ],
)
@pytest.mark.parametrize("make", [source, sink])
def test_a_setting_that_would_break_a_promise_is_refused_with_what_to_do(make, name):
    with pytest.raises(OptionError) as raised:
        make(**{f"kafka.{name}": "x"})
    assert name in str(raised.value)
    assert raised.value.fix


@pytest.mark.parametrize("value", ["false", "False", "f", "0"])
def test_an_unsafe_setting_is_warned_of(value):
    with pytest.warns(UserWarning, match="certificate is not checked"):
        source(**{"kafka.enable.ssl.certificate.verification": value})


@pytest.mark.parametrize("name", ["acks", "request.required.acks"])
def test_fewer_acknowledgements_are_refused(name):
    assert sink(**{f"kafka.{name}": "all"}).kafka == {name: "all"}
    for few in ("0", "1"):
        with pytest.raises(OptionError, match="lose records"):
            sink(**{f"kafka.{name}": few})


def test_credentials_in_clear_text_need_consent_unless_the_broker_is_here():
    clear = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "u",
        "kafka.sasl.password": "p",
    }
    source(**clear)
    with pytest.raises(OptionError, match="clear text"):
        source(**{**clear, "servers": "kafka.example.com:9092"})
    source(**{**clear, "servers": "kafka.example.com:9092", "allow_plaintext": "true"})


@pytest.mark.parametrize(
    "name", ["sasl.password", "ssl.key.pem", "ssl.key.password", "sasl.oauthbearer.client.secret"]
)
def test_a_secret_setting_never_prints_and_pickles_as_its_reference(name):
    made = source(**{f"kafka.{name}": "canary-7"})
    assert isinstance(made.kafka[name], Secret)
    assert "canary-7" not in repr(made) + str(shown(made))
    referred = source(**{"kafka.sasl.password": "${env:PASSWORD_NOT_SET}"})
    assert pickle.loads(pickle.dumps(referred)) == referred


def test_exactly_once_needs_a_topic_for_its_numbers():
    with pytest.raises(OptionError, match="batch numbers"):
        parse(KafkaSink, {"servers": "localhost:9092", "topic_field": "to"})
    made = {"servers": "localhost:9092", "topic_field": "to", "delivery": "at-least-once"}
    assert parse(KafkaSink, made).topic is None


def test_a_source_with_an_end_is_bounded():
    assert not source().bounded()
    assert source(end="2030-01-01T00:00:00Z").bounded()
