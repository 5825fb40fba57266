import datetime
import json
import pickle
import ssl
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from core.tests.coders.registry_server import running
from penstock.coders.avro.coder import AvroCoder
from penstock.coders.json import JsonCoder
from penstock.coders.registry import Registry, RegistryError, subject_name
from penstock.coders.schema import parse_schema
from penstock.contracts.errors import OptionError, SchemaError
from penstock.contracts.options import parse, shown

V1 = {"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]}
V2 = {**V1, "fields": [*V1["fields"], {"name": "note", "type": "string", "default": "-"}]}
V3 = {
    **V1,
    "fields": [*V2["fields"], {"name": "total", "type": ["null", "double"], "default": None}],
}
VALUE = SerializationContext("orders", MessageField.VALUE)


def coder(registry, **options):
    return AvroCoder(framing="registry", registry={"url": registry.url}, **options)


def peer(registry, schema, **conf):
    """What confluent-kafka's own serializer makes of objects."""
    client = SchemaRegistryClient({"url": registry.url})
    write = AvroSerializer(client, json.dumps(schema), conf=conf or None)
    return lambda each: write(each, VALUE)


def binary(*values):
    return pa.array(values, pa.binary())


def test_several_writers_in_one_batch_are_read_with_one_schema(registry):
    old, middle, new = (peer(registry, schema) for schema in (V1, V2, V3))
    values = [
        old({"id": 1}),
        new({"id": 2, "note": "n", "total": 1.5}),
        None,
        old({"id": 3}),
        middle({"id": 4, "note": "m"}),
    ]
    done = coder(registry, schema=V2).decode(binary(*values))
    assert done.errors == ()
    assert done.origin.to_pylist() == [0, 1, 3, 4]
    assert done.rows.to_pylist() == [
        {"id": 1, "note": "-"},
        {"id": 2, "note": "n"},
        {"id": 3, "note": "-"},
        {"id": 4, "note": "m"},
    ]


def test_confluents_client_reads_what_we_write_and_we_read_what_it_writes(registry):
    ours = coder(registry, schema=V2, topic="orders", register=True)
    rows = pa.RecordBatch.from_pylist([{"id": 7, "note": "x"}], schema=ours.schema())
    (value,) = ours.encode(rows).values.to_pylist()
    read = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
    assert read(value, VALUE) == {"id": 7, "note": "x"}
    assert peer(registry, V2)({"id": 7, "note": "x"}) == value
    assert ours.decode(binary(value)).rows.equals(rows)


def test_a_new_version_in_mid_stream_needs_no_restart_and_no_refetch(registry):
    old = peer(registry, V1)
    reader = coder(registry, schema=V2)
    assert reader.decode(binary(*[old({"id": i}) for i in range(50)])).rows.num_rows == 50
    new = peer(registry, V3)
    mixed = [old({"id": 1}), new({"id": 2, "note": "n", "total": None})]
    registry.requests.clear()
    for _ in range(20):
        assert reader.decode(binary(*mixed)).errors == ()
    assert registry.requests == ["GET /schemas/ids/2"]


def test_the_latest_schema_is_asked_for_once_and_travels_with_the_coder(registry):
    peer(registry, V1)({"id": 1})
    there = coder(registry, topic="orders")
    assert there.schema().names == ["id"]
    value = peer(registry, V2)({"id": 1, "note": "n"})
    worker = pickle.loads(pickle.dumps(there))
    assert worker.decode(binary(value)).rows.to_pylist() == [{"id": 1}]
    assert coder(registry, topic="orders").schema().names == ["id", "note"]
    assert coder(registry, subject="orders-value", version=1).schema().names == ["id"]


def test_references_to_other_subjects_are_followed(registry):
    client = SchemaRegistryClient({"url": registry.url})
    street = {
        "type": "record",
        "name": "street",
        "namespace": "n",
        "fields": [{"name": "name", "type": "string"}],
    }
    place = {
        "type": "record",
        "name": "place",
        "namespace": "n",
        "fields": [{"name": "street", "type": "n.street"}],
    }
    whole = {
        "type": "record",
        "name": "order",
        "fields": [{"name": "to", "type": "n.place"}, {"name": "by", "type": "n.street"}],
    }
    client.register_schema("street", Schema(json.dumps(street), "AVRO"))
    refer_street = SchemaReference("n.street", "street", 1)
    client.register_schema("place", Schema(json.dumps(place), "AVRO", [refer_street]))
    references = [SchemaReference("n.place", "place", 1), refer_street]
    client.register_schema("orders-value", Schema(json.dumps(whole), "AVRO", references))
    reader = coder(registry, topic="orders")
    value = b"\x00" + (3).to_bytes(4, "big") + b"\x02a\x04bc"
    assert reader.decode(binary(value)).rows.to_pylist() == [
        {"to": {"street": {"name": "a"}}, "by": {"name": "bc"}}
    ]


DOCUMENTED = {
    **V1,
    "doc": "an order",
    "owner": "sales",
    "fields": [{"name": "id", "type": "long", "doc": "its number"}],
}


@pytest.mark.parametrize("given", [DOCUMENTED, json.dumps(DOCUMENTED, indent=1)])
def test_a_schema_is_found_with_its_documentation_and_properties(registry, given):
    client = SchemaRegistryClient({"url": registry.url})
    number = client.register_schema("orders-value", Schema(json.dumps(DOCUMENTED), "AVRO"))
    writer = coder(registry, schema=given, topic="orders")
    rows = pa.RecordBatch.from_pylist([{"id": 7}], schema=writer.schema())
    assert writer.encode(rows).values.to_pylist() == [b"\x00" + number.to_bytes(4, "big") + b"\x0e"]
    again = coder(registry, schema=given, topic="new", register=True)
    assert again.encode(rows).errors == ()
    assert json.loads(client.get_latest_version("new-value").schema.schema_str) == DOCUMENTED


def test_the_registrys_own_schema_is_written_with_under_its_own_id(registry):
    """Whatever it refers to, and whatever is registered meanwhile."""
    client = SchemaRegistryClient({"url": registry.url})
    place = {"type": "record", "name": "place", "fields": [{"name": "at", "type": "string"}]}
    order = {**V1, "doc": "d", "fields": [{"name": "to", "type": "place"}]}
    client.register_schema("place", Schema(json.dumps(place), "AVRO"))
    refers = [SchemaReference("place", "place", 1)]
    number = client.register_schema("orders-value", Schema(json.dumps(order), "AVRO", refers))
    writer = coder(registry, topic="orders")
    rows = pa.RecordBatch.from_pylist([{"to": {"at": "x"}}], schema=writer.schema())
    registry.requests.clear()
    (value,) = pickle.loads(pickle.dumps(writer)).encode(rows).values.to_pylist()
    assert value == b"\x00" + number.to_bytes(4, "big") + b"\x02x"
    assert registry.requests == []


def test_an_unknown_id_is_an_error_of_its_records_and_asked_for_once(registry):
    good = peer(registry, V1)({"id": 1})
    stray = b"\x00\x00\x00\x00\x63\x02"
    reader = coder(registry, schema=V1)
    registry.requests.clear()
    for _ in range(3):
        done = reader.decode(binary(stray, good, b"\x01bad", b"", stray))
        assert done.rows.to_pylist() == [{"id": 1}]
        assert [(e.row, e.ephemeral) for e in done.errors] == [
            (0, False),
            (2, False),
            (3, False),
            (4, False),
        ]
    assert registry.requests.count("GET /schemas/ids/99") == 1


def test_an_incompatible_writer_is_an_error_of_its_records(registry):
    good = peer(registry, V1)({"id": 1})
    other = {**V1, "fields": [{"name": "id", "type": "string"}]}
    client = SchemaRegistryClient({"url": registry.url})
    number = client.register_schema("other", Schema(json.dumps(other), "AVRO"))
    bad = b"\x00" + number.to_bytes(4, "big") + b"\x02a"
    done = coder(registry, schema=V1).decode(binary(good, bad))
    assert done.rows.to_pylist() == [{"id": 1}]
    assert (done.errors[0].row, done.errors[0].kind) == (1, "SchemaError")


def test_a_registry_that_fails_is_ephemeral_and_found_again(registry):
    good = peer(registry, V1)({"id": 1})
    reader = coder(registry, schema=V1)
    registry.failing = 100
    (error,) = reader.decode(binary(good)).errors
    assert error.ephemeral
    registry.failing = 0
    assert reader.decode(binary(good)).errors == ()


def test_a_registry_that_is_gone_is_ephemeral():
    with running() as server:
        good = peer(server, V1)({"id": 1})
        options = {"url": server.url, "timeout": "2", "max.retries": "0"}
    reader = AvroCoder(schema=V1, framing="registry", registry=options)
    (error,) = reader.decode(binary(good)).errors
    assert error.ephemeral
    with pytest.raises(RegistryError) as raised:
        AvroCoder(topic="orders", framing="registry", registry=options).schema()
    assert raised.value.ephemeral


def test_a_registry_that_is_gone_is_asked_once_in_a_batch(registry):
    """A batch of many new ids must not wait for each of them."""
    good = peer(registry, V1)({"id": 1})
    options = {"url": registry.url, "max.retries": "0"}
    reader = AvroCoder(schema=V1, framing="registry", registry=options)
    assert reader.decode(binary(good)).errors == ()
    strays = [b"\x00" + number.to_bytes(4, "big") + b"\x02" for number in range(50, 80)]
    registry.failing = 1000
    registry.requests.clear()
    done = reader.decode(binary(*strays, good))
    assert done.rows.to_pylist() == [{"id": 1}]
    assert (len(done.errors), all(error.ephemeral for error in done.errors)) == (30, True)
    assert len(registry.requests) == 1
    registry.failing = 0
    assert not any(error.ephemeral for error in reader.decode(binary(*strays)).errors)


def test_an_unknown_id_is_a_fresh_error_each_time(registry):
    """One that is kept and raised again would hold every batch it was raised in."""
    raised = []
    for _ in range(2):
        with pytest.raises(RegistryError, match="99") as found:
            Registry({"url": registry.url}).by_id(99)
        raised.append(found.value)
    assert raised[0] is not raised[1]
    assert raised[0].message == raised[1].message


def test_a_schema_is_kept_in_each_form_it_was_asked_for(registry):
    """An Avro coder that meets a Protobuf id must not spoil it for a Protobuf coder."""
    client = SchemaRegistryClient({"url": registry.url})
    number = client.register_schema("s", Schema('syntax = "proto3";', "PROTOBUF"))
    both = Registry({"url": registry.url})
    assert both.by_id(number).kind == "PROTOBUF"
    registry.requests.clear()
    both.by_id(number, "serialized")
    assert registry.requests == [f"GET /schemas/ids/{number}"]


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"tiemout": "3"}, "did you mean 'timeout'"),
        ({"timeout": "abc"}, "registry.timeout"),
        ({"max.retries": "nan"}, "max.retries"),
    ],
)
def test_settings_that_are_none_are_refused_where_they_are_given(settings, word):
    given = {f"registry.{name}": value for name, value in settings.items()}
    options = {"schema": V1, "framing": "registry", "registry.url": "http://x", **given}
    with pytest.raises(OptionError, match=word):
        parse(AvroCoder, options)


@pytest.mark.parametrize(
    ("url", "credentials"),
    [
        ("http://registry.example.org:8081", {"registry.basic.auth.user.info": "me:canary"}),
        ("https://localhost,http://registry.example.org", {"registry.bearer.auth.token": "canary"}),
        ("http://me:canary@registry.example.org", {}),
    ],
)
def test_credentials_in_clear_text_to_another_machine_need_a_word(url, credentials):
    options = {"schema": V1, "framing": "registry", "registry.url": url, **credentials}
    with pytest.raises(OptionError, match="clear text") as raised:
        parse(AvroCoder, options)
    assert "canary" not in str(raised.value)
    parse(AvroCoder, {**options, "registry.plaintext": "true"})
    for other in ("https://registry.example.org", "http://localhost", "http://[::1]:8081"):
        parse(AvroCoder, {**options, "registry.url": other})
    parse(AvroCoder, {"schema": V1, "framing": "registry", "registry.url": "http://example.org"})


def test_redirects_are_refused(registry):
    good = peer(registry, V1)({"id": 1})
    with running() as elsewhere:
        peer(elsewhere, V1)({"id": 1})
        elsewhere.requests.clear()
        registry.redirect = elsewhere.url
        (error,) = coder(registry, schema=V1).decode(binary(good)).errors
        assert "redirect" in error.message
        assert elsewhere.requests == []


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://x", "localhost:8081", "mock://x", "http://"]
)
def test_addresses_that_are_none_are_refused(url):
    with pytest.raises(OptionError):
        parse(AvroCoder, {"schema": V1, "framing": "registry", "registry.url": url})


def test_registering_is_checked_for_compatibility(registry):
    first = coder(registry, schema=V1, topic="orders", register=True)
    rows = pa.RecordBatch.from_pylist([{"id": 7}], schema=first.schema())
    assert first.encode(rows).errors == ()
    broken = {**V1, "fields": [{"name": "id", "type": "string"}]}
    second = coder(registry, schema=broken, topic="orders", register=True)
    done = second.encode(pa.RecordBatch.from_pylist([{"id": "x"}], schema=second.schema()))
    assert (len(done.errors), done.values.null_count) == (1, 1)
    client = SchemaRegistryClient({"url": registry.url})
    assert not client.test_compatibility("orders-value", Schema(json.dumps(broken), "AVRO"))
    assert client.test_compatibility("orders-value", Schema(json.dumps(V2), "AVRO"))


def test_without_register_a_schema_must_be_there(registry):
    writer = coder(registry, schema=V1, topic="orders")
    rows = pa.RecordBatch.from_pylist([{"id": 7}], schema=writer.schema())
    assert len(writer.encode(rows).errors) == 1
    peer(registry, V1)({"id": 1})
    assert writer.encode(rows).errors == ()


def test_a_subject_that_is_not_there_is_refused_at_analysis(registry):
    with pytest.raises(SchemaError, match="nothing-value"):
        coder(registry, topic="nothing").schema()


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("topic", "t-value"), ("record", "n.order"), ("topic-record", "t-n.order")],
)
def test_subjects_are_named_by_strategy(registry, strategy, expected):
    schema = {**V1, "namespace": "n"}
    writer = coder(registry, schema=schema, topic="t", strategy=strategy, register=True)
    writer.encode(pa.RecordBatch.from_pylist([{"id": 7}], schema=writer.schema()))
    assert list(registry.subjects) == [expected]
    with pytest.raises(OptionError):
        subject_name(strategy, None, None)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"basic.auth.user.info": "me:pass word"}, "Basic bWU6cGFzcyB3b3Jk"),
        ({"bearer.auth.token": "canary-token"}, "Bearer canary-token"),
    ],
)
def test_credentials_are_sent_and_never_shown(settings, expected):
    with running(authorization=expected) as server:
        options = {f"registry.{k}": v for k, v in {"url": server.url, **settings}.items()}
        reader = parse(AvroCoder, {"schema": V1, "framing": "registry", **options})
        (error,) = reader.decode(binary(b"\x00\x00\x00\x00\x05\x02")).errors
        assert "has no answer" in error.message
        (secret,) = settings.values()
        for text in (repr(reader), str(shown(reader)), str(error), repr(Registry(reader.registry))):
            assert secret not in text
        wrong = parse(AvroCoder, {"schema": V1, "framing": "registry", "registry.url": server.url})
        (error,) = wrong.decode(binary(b"\x00\x00\x00\x00\x05\x02")).errors
        assert "credentials" in error.message


def test_tls_is_verified_and_a_client_certificate_is_shown(tmp_path: Path):
    authority, key = _certificate(tmp_path, "server")
    mine, my_key = _certificate(tmp_path, "client")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(mine))
    context.load_cert_chain(authority, key)
    context.verify_mode = ssl.CERT_REQUIRED
    with running(context=context) as server:
        trusting = {
            "url": server.url,
            "ssl.ca.location": str(authority),
            "max.retries": "0",
            "timeout": "3",
        }
        known = {**trusting, "ssl.certificate.location": str(mine), "ssl.key.location": str(my_key)}
        number = Registry(known).by_id
        with pytest.raises(RegistryError, match="has no answer"):
            number(1)
        for settings in (trusting, {**known, "ssl.ca.location": str(mine)}):
            with pytest.raises(RegistryError, match="does not answer"):
                Registry(settings).by_id(1)


def _certificate(folder: Path, name: str) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    called = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(called)
        .issuer_name(called)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / f"{name}.pem", folder / f"{name}.key"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain))
    return paths


JSON_SCHEMA = {
    "title": "order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
}


def test_json_behind_an_id_is_read_and_written_as_confluents_client_does(registry):
    client = SchemaRegistryClient({"url": registry.url})
    text = json.dumps(JSON_SCHEMA)
    theirs = JSONSerializer(text, client)({"id": 1, "name": "a"}, VALUE)
    settings = {"framing": "registry", "registry": {"url": registry.url}, "topic": "orders"}
    ours = JsonCoder(**settings)
    assert pickle.loads(pickle.dumps(ours)).schema().names == ["id", "name"]
    done = ours.decode(
        binary(theirs, None, b"{}", theirs[:5] + b'{"id":"x"}', b"\x00\x00\x00\x00\x63{}")
    )
    assert done.rows.to_pylist() == [{"id": 1, "name": "a"}]
    assert [error.row for error in done.errors] == [2, 3, 4]
    (back,) = ours.encode(done.rows).values.to_pylist()
    assert JSONDeserializer(text)(back, VALUE) == {"id": 1, "name": "a"}
    new = JsonCoder(schema=JSON_SCHEMA, register=True, **{**settings, "topic": "new"})
    assert new.encode(done.rows).errors == ()
    assert "new-value" in registry.subjects


def test_a_json_schema_may_refer_to_other_subjects(registry):
    client = SchemaRegistryClient({"url": registry.url})
    street = {
        "$defs": {"name": {"type": "string"}},
        "type": "object",
        "properties": {"name": {"$ref": "#/$defs/name"}},
    }
    order = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "to": {"$ref": "street.json"},
            "by": {"$ref": "street.json#/$defs/name"},
        },
    }
    client.register_schema("street", Schema(json.dumps(street), "JSON"))
    refers = [SchemaReference("street.json", "street", 1)]
    number = client.register_schema("orders-value", Schema(json.dumps(order), "JSON", refers))
    ours = JsonCoder(framing="registry", registry={"url": registry.url}, topic="orders")
    row = {"id": 1, "to": {"name": "a"}, "by": "b"}
    value = b"\x00" + number.to_bytes(4, "big") + json.dumps(row).encode()
    done = pickle.loads(pickle.dumps(ours)).decode(binary(value))
    assert done.rows.to_pylist() == [row]
    (back,) = ours.encode(done.rows).values.to_pylist()
    assert (back[:5], json.loads(back[5:])) == (value[:5], row)


def test_a_json_schema_that_refers_to_itself_through_another_is_refused(registry):
    client = SchemaRegistryClient({"url": registry.url})
    loop = {"type": "object", "properties": {"next": {"$ref": "node.json"}}}
    client.register_schema("node", Schema(json.dumps(loop), "JSON"))
    refers = [SchemaReference("node.json", "node", 1)]
    client.register_schema("orders-value", Schema(json.dumps(loop), "JSON", refers))
    with pytest.raises(SchemaError, match="no columns"):
        JsonCoder(framing="registry", registry={"url": registry.url}, topic="orders").schema()


@pytest.mark.parametrize("form", ["DDL", "Arrow", "Avro"])
def test_columns_are_registered_as_a_json_schema(registry, form):
    columns = (
        "id BIGINT, total DOUBLE, ok BOOLEAN, at TIMESTAMP, day DATE, raw BINARY, name STRING, "
        "tags ARRAY<STRING>, place STRUCT<street: STRING>, counts MAP<STRING, BIGINT>"
    )
    given = {"DDL": columns, "Arrow": parse_schema(columns), "Avro": V1}[form]
    settings = {"framing": "registry", "registry": {"url": registry.url}, "topic": "orders"}
    ours = JsonCoder(schema=given, register=True, **settings)
    row = dict.fromkeys(ours.schema().names) | {"id": 7}
    done = ours.encode(pa.RecordBatch.from_pylist([row], schema=ours.schema()))
    assert done.errors == ()
    assert JsonCoder(**settings).schema() == ours.schema()
    (text,) = [schema["schema"] for schema in registry.schemas.values()]
    assert JSONDeserializer(text)(done.values[0].as_py(), VALUE)["id"] == 7


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("topic", "t-value"), ("record", "order"), ("topic-record", "t-order")],
)
def test_a_json_schemas_subject_is_named_by_strategy(registry, strategy, expected):
    settings = {"framing": "registry", "registry": {"url": registry.url}, "topic": "t"}
    writer = JsonCoder(schema=JSON_SCHEMA, strategy=strategy, register=True, **settings)
    rows = pa.RecordBatch.from_pylist([{"id": 7, "name": "n"}], schema=writer.schema())
    assert writer.encode(rows).errors == ()
    assert list(registry.subjects) == [expected]
