"""Both ends over TLS and every SASL mechanism, against a real broker; and what they refuse."""

import base64
import json
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from confluent_kafka import admin

from penstock.contracts import Batch, Context
from penstock.contracts.errors import PenstockError
from penstock.contracts.options import parse
from penstock_kafka.sink import KafkaSink
from penstock_kafka.source import KafkaSource
from tests.brokers.certificates import Authority
from tests.brokers.fixtures import running
from tests.brokers.kafka import Kafka

from .conftest import envelopes

pytestmark = [pytest.mark.server, pytest.mark.slow]
LOGIN = "org.apache.kafka.common.security"
SCRAM = {
    "SCRAM-SHA-256": admin.ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": admin.ScramMechanism.SCRAM_SHA_512,
}
PASSWORD = "scram-canary"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    jaas = "listener.name.sasl_ssl.{}.sasl.jaas.config"
    settings = {
        "sasl.enabled.mechanisms": ",".join(["PLAIN", *SCRAM, "OAUTHBEARER"]),
        **{
            jaas.format(name.lower()): f"{LOGIN}.scram.ScramLoginModule required;" for name in SCRAM
        },
        jaas.format("oauthbearer"): f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required;",
    }
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    for made in running(Kafka(settings, tls=authority)):
        asked = admin.AdminClient({"bootstrap.servers": made.address})
        for kind in SCRAM.values():  # a request may alter a user only once
            change = admin.UserScramCredentialUpsertion(
                "reader", admin.ScramCredentialInfo(kind, 4096), PASSWORD.encode()
            )
            for future in asked.alter_user_scram_credentials([change]).values():
                future.result(30)
        yield made


@pytest.fixture(scope="module")
def tokens():
    """An identity provider that trusts everyone; the broker's default validator asks no more."""

    class Provider(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            now = int(time.time())
            claims = {"sub": "reader", "iat": now, "exp": now + 3600, "scope": "kafka"}
            token = ".".join([_part({"alg": "none", "typ": "JWT"}), _part(claims), ""])
            body = json.dumps({"access_token": token, "token_type": "bearer", "expires_in": 3600})
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Provider) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()
        thread.join()


def _part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.fixture
def secured(broker):
    def make(mechanism=None, **settings):
        given = {
            "servers": broker.sasl_address if mechanism else broker.tls_address,
            "kafka.security.protocol": "SASL_SSL" if mechanism else "SSL",
            "kafka.ssl.ca.location": str(broker.tls.ca),
        }
        if mechanism:
            given["kafka.sasl.mechanism"] = mechanism
        return {**given, **{f"kafka.{k.replace('_', '.')}": v for k, v in settings.items()}}

    return make


def round_trip(broker, place):
    topic = broker.create_topic(f"t-{uuid.uuid4().hex[:12]}")
    sink = parse(KafkaSink, {**place, "topic": topic})
    source = parse(KafkaSource, {**place, "topics": topic, "group": f"g-{topic}"})
    sink.check()
    source.check()
    rows = envelopes([b"one", b"two"])
    batch = Batch(Context(query=str(uuid.uuid4()), node="kafka"), 0, 1)
    sink.begin(batch)
    writer = sink.open(batch, 0, 0, sink.accepts(rows.schema))
    writer.write(rows)
    writer.close()
    planner = source.planner(Context())
    end = planner.final()
    found = [
        value
        for part in planner.plan(planner.initial(), end)
        for got in source.read(part)
        for value in got["value"].to_pylist()
    ]
    planner.durable(end)
    planner.close()
    assert found == [b"one", b"two"]


def test_tls_without_a_password(broker, secured):
    round_trip(broker, secured())


def test_plain(broker, secured):
    round_trip(broker, secured("PLAIN", sasl_username=broker.user, sasl_password=broker.password))


@pytest.mark.parametrize("mechanism", SCRAM)
def test_scram(broker, secured, mechanism):
    round_trip(broker, secured(mechanism, sasl_username="reader", sasl_password=PASSWORD))


def test_oauthbearer_with_tokens_of_an_identity_provider(broker, secured, tokens):
    settings = {
        "kafka.sasl.oauthbearer.method": "oidc",
        "kafka.sasl.oauthbearer.token.endpoint.url": tokens,
        "kafka.sasl.oauthbearer.client.id": "penstock",
        "kafka.sasl.oauthbearer.client.secret": "oidc-canary",
    }
    round_trip(broker, {**secured("OAUTHBEARER"), **settings})


def refused(cls, given):
    began = time.monotonic()
    with pytest.raises(PenstockError) as caught:
        parse(cls, given).check()
    assert time.monotonic() - began < 10
    assert not caught.value.ephemeral
    return str(caught.value)


@pytest.mark.parametrize("cls", [KafkaSource, KafkaSink])
@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
def test_a_wrong_password_is_refused_at_once_and_not_repeated(broker, secured, cls, mechanism):
    given = secured(mechanism, sasl_username="reader", sasl_password="wrong-canary")
    topic = {"topics": "any"} if cls is KafkaSource else {"topic": "any"}
    said = refused(cls, {**given, **topic})
    assert "wrong-canary" not in said
    assert "kafka.sasl" in said


@pytest.mark.parametrize("cls", [KafkaSource, KafkaSink])
def test_a_server_that_a_stranger_vouches_for_is_not_trusted(broker, secured, cls, tmp_path):
    given = {**secured(), "kafka.ssl.ca.location": str(Authority(tmp_path / "stranger").ca)}
    topic = {"topics": "any"} if cls is KafkaSource else {"topic": "any"}
    assert "certificate" in refused(cls, {**given, **topic})
