import pickle
import random
import string

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from core.tests.coders.orders_pb2 import Node, Order, Unused
from core.tests.coders.strategies import TEXTS
from penstock.coders.protobuf import reference
from penstock.coders.protobuf.coder import ProtobufCoder
from penstock.coders.protobuf.types import plan
from penstock.coders.schema import parse_schema
from penstock.contracts.errors import OptionError, SchemaError
from penstock.contracts.options import parse

CODER = ProtobufCoder(schema=Order)
PLAN = plan(Order.DESCRIPTOR)
VALUE = SerializationContext("orders", MessageField.VALUE)

I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
F32 = st.floats(width=32, allow_nan=False)
STATUS = st.sampled_from([0, 1, 5, -1])


def maybe(**fields):
    return st.fixed_dictionaries({}, optional=fields)


LINES = maybe(sku=TEXTS, qty=I32, price=st.floats(allow_nan=False), note=TEXTS)
STAMPS = st.fixed_dictionaries(
    {"seconds": st.integers(-(2**33), 2**33), "nanos": st.integers(0, 999_999_999)}
)
ORDERS = maybe(
    id=I64, name=TEXTS, active=st.booleans(), score=st.floats(allow_nan=False), ratio=F32, u32=U32,
    u64=U64, s32=I32, s64=I64, f32=U32, f64=U64, sf32=I32, sf64=I64, raw=st.binary(max_size=9),
    status=STATUS, maybe=I32, line=LINES, lines=st.lists(LINES, max_size=3),
    numbers=st.lists(I64, max_size=4), tags=st.lists(TEXTS, max_size=3),
    statuses=st.lists(STATUS, max_size=3), fixeds=st.lists(U32, max_size=3),
    counts=st.dictionaries(TEXTS, I64, max_size=3), at=STAMPS, loose=st.lists(I32, max_size=3),
    empty=st.just({}), flags=st.lists(st.booleans(), max_size=3), i32=I32,
)  # fmt: skip
MESSAGES = st.one_of(ORDERS, ORDERS.flatmap(lambda o: TEXTS.map(lambda t: {**o, "left": t})))


def made(fields, places=()):
    order = Order(**fields)
    for key, line in places:
        order.places[key].CopyFrom(Order.Line(**line))
    return order


ALL = st.builds(made, MESSAGES, st.lists(st.tuples(I32, LINES), max_size=2))


def binary(*values):
    return pa.array(values, pa.binary())


def plain(rows):
    """Rows with maps in an order: Protobuf has none."""
    out = rows.to_pylist()
    for row in out:
        for name in ("counts", "places"):
            row[name] = sorted(row[name], key=lambda entry: entry[0])
    return out


@given(st.lists(ALL, max_size=5))
@settings(max_examples=150)
def test_the_fast_path_reads_what_googles_library_wrote_as_it_does(orders):
    values = [order.SerializeToString() for order in orders]
    done = CODER.decode(pa.array(values, pa.binary()))
    assert done.errors == ()
    done.rows.validate(full=True)
    assert plain(done.rows) == plain(reference.decode(values, Order, PLAN))


@given(st.lists(ALL, max_size=5))
@settings(max_examples=100)
def test_googles_library_reads_what_we_write(orders):
    for order in orders:
        order.at.nanos = order.at.nanos // 1000 * 1000
    values = [order.SerializeToString() for order in orders]
    rows = CODER.decode(pa.array(values, pa.binary())).rows
    encoded = CODER.encode(rows)
    assert encoded.errors == ()
    for value, order in zip(encoded.values.to_pylist(), orders, strict=True):
        assert Order.FromString(value) == order


@given(
    st.lists(ALL, min_size=1, max_size=4), st.lists(st.binary(max_size=30), max_size=3), st.data()
)
@settings(max_examples=150)
def test_damaged_messages_are_bad_where_google_says_so_and_never_change_their_neighbours(
    orders, noise, data
):
    values = [order.SerializeToString() for order in orders]
    cut = [value[: data.draw(st.integers(0, len(value)))] for value in values]
    mixed = data.draw(st.permutations([*values, *cut, *noise]))
    done = CODER.decode(pa.array(mixed, pa.binary()))
    good = [value for value in mixed if readable(value)]
    assert [mixed[error.row] for error in done.errors] == [v for v in mixed if not readable(v)]
    assert plain(done.rows) == plain(reference.decode(good, Order, PLAN))


def readable(value):
    try:
        order = Order.FromString(value)
    except DecodeError:
        return False
    # Seconds beyond a timestamp's range are our error, not Google's.
    return abs(order.at.seconds) < 2**63 // 1_000_000 - 1 and 0 <= order.at.nanos < 10**9


BAD = {
    "a length beyond the message": b"\x12\xff\xff\xff\xff\x0f",
    "a varint that never ends": b"\x08" + b"\xff" * 12,
    "a tag of zero": b"\x00\x00",
    "an impossible wire type": b"\x0e",
    "an end without a group": b"\x0c",
    "text that is not UTF-8": b"\x12\x01\xff",
    "a packed number cut off": b"\x9a\x01\x01\xff",
    "a packed fixed number cut off": b"\xb2\x01\x03\x00\x00\x00",
    "a nested message cut off": b"\x8a\x01\x02\x0a\x05",
    "a cut fixed number": b"\x21\x00",
}


@pytest.mark.parametrize("name", BAD)
def test_hostile_bytes_are_a_typed_error_of_their_message(name):
    good = Order(id=1).SerializeToString()
    done = CODER.decode(binary(good, BAD[name], good))
    assert done.rows.column("id").to_pylist() == [1, 1]
    assert [error.row for error in done.errors] == [1]
    assert not readable(BAD[name])


def test_depth_is_bounded_by_the_schema():
    deep = b""
    for _ in range(2000):
        size = len(deep)
        length = bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14])
        deep = b"\x92\x03" + length + deep
    done = CODER.decode(binary(deep, Order(id=1).SerializeToString()))
    assert done.rows.column("id").to_pylist() == [0, 1]


def test_fields_that_come_twice_and_unknown_ones_follow_protobufs_rules():
    twice = Order(id=1, name="a").SerializeToString() + Order(id=2).SerializeToString()
    merged = (
        Order(line={"sku": "a"}).SerializeToString() + Order(line={"qty": 3}).SerializeToString()
    )
    group = b"\xa3\x06\x08\x01\xa4\x06" + Order(id=7).SerializeToString()
    unknown = b"\xfa\x7f\x02hi" + Order(id=8).SerializeToString()
    values = [twice, merged, group, unknown]
    done = CODER.decode(binary(*values))
    assert done.errors == ()
    assert plain(done.rows) == plain(reference.decode(values, Order, PLAN))


def test_a_message_with_very_many_items_is_read_too():
    long = Order(id=2, tags=[f"t{i}" for i in range(3000)], loose=range(3000), numbers=range(3000))
    values = [Order(id=1).SerializeToString(), long.SerializeToString()]
    values.append(values[1][:-1])
    done = CODER.decode(binary(*values))
    assert plain(done.rows) == plain(reference.decode(values[:2], Order, PLAN))
    assert [error.row for error in done.errors] == [2]


def test_bad_rows_among_many_are_all_found(penstock_seed):
    pick = random.Random(penstock_seed)
    word = "".join(pick.choices(string.ascii_letters, k=20))
    values = [
        Order(id=i + 1, name=word, tags=["t"] * (i % 4)).SerializeToString() for i in range(20_000)
    ]
    bad = sorted(pick.sample(range(20_000), 20))
    for row in bad:
        values[row] = values[row][:10]
    done = CODER.decode(binary(*values))
    assert [error.row for error in done.errors] == bad
    assert done.rows.column("id").to_pylist() == [i + 1 for i in range(20_000) if i not in bad]


def test_a_reader_of_fewer_fields_and_of_more_sees_its_own_schema():
    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="new.proto", package="n", syntax="proto3")
    new = file.message_type.add(name="Order")
    new.field.add(name="id", number=1, type=3, label=1)
    new.field.add(name="added", number=99, type=9, label=1)
    reader = ProtobufCoder(schema=files.SerializeToString(), message="n.Order")
    value = Order(id=5, name="x", lines=[{"sku": "a"}]).SerializeToString()
    assert reader.decode(binary(value)).rows.to_pylist() == [{"id": 5, "added": ""}]
    old = CODER.decode(
        reader.encode(pa.RecordBatch.from_pylist([{"id": 6, "added": "y"}], reader.schema())).values
    )
    assert old.rows.column("id").to_pylist() == [6]


def test_narrowing_reads_only_those_columns():
    coder = CODER.narrowed(["tags", "id"])
    value = Order(id=5, name="x", tags=["a"]).SerializeToString()
    assert coder.decode(binary(value)).rows.to_pylist() == [{"id": 5, "tags": ["a"]}]


def test_descriptors_come_from_a_file_a_module_or_a_class(tmp_path):
    files = descriptor_pb2.FileDescriptorSet()
    for each in (*Order.DESCRIPTOR.file.dependencies, Order.DESCRIPTOR.file):
        each.CopyToProto(files.file.add())
    path = tmp_path / "orders.binpb"
    path.write_bytes(files.SerializeToString())
    by_file = parse(ProtobufCoder, {"schema": str(path), "message": "penstock.test.Order"})
    by_name = parse(ProtobufCoder, {"schema": "core.tests.coders.orders_pb2:Order"})
    assert by_file.schema() == by_name.schema() == CODER.schema() == parse_schema(Order)
    path.unlink()
    assert pickle.loads(pickle.dumps(by_file)).schema() == CODER.schema()


@pytest.mark.parametrize(
    "options",
    [
        {"schema": Node},
        {"schema": "nowhere.at.all:Order"},
        {"schema": b"nonsense", "message": "a.B"},
        {"schema": b"", "message": "a.B"},
        {"schema": "/no/such/file", "message": "a.B"},
        {"schema": 7},
    ],
)
def test_a_schema_without_columns_is_refused(options):
    with pytest.raises(SchemaError):
        parse(ProtobufCoder, options).schema()


def test_a_message_must_be_named():
    for options in ({}, {"schema": b"x"}):
        with pytest.raises(OptionError):
            parse(ProtobufCoder, options).schema()


def test_rows_that_protobuf_cannot_hold_are_errors_of_their_own():
    rows = CODER.decode(
        binary(*[Order(id=i).SerializeToString() for i in range(5)])
    ).rows.to_pylist()
    rows[1]["tags"] = ["a", None]
    rows[2]["status"] = "WHAT"
    rows[3]["u32"] = -1
    done = CODER.encode(pa.RecordBatch.from_pylist(rows, CODER.schema()))
    assert [error.row for error in done.errors] == [1, 2, 3]
    assert CODER.decode(done.values).rows.column("id").to_pylist() == [0, 4]


def registered(registry, **options):
    return ProtobufCoder(framing="registry", registry={"url": registry.url}, **options)


@pytest.mark.parametrize("cls", [Order, Unused, Order.Line])
def test_confluents_client_and_ours_read_each_other(registry, cls):
    client = SchemaRegistryClient({"url": registry.url})
    given_ = cls(**{"name": "x"} if cls is Order else {"a": "x"} if cls is Unused else {"sku": "x"})
    theirs = ProtobufSerializer(cls, client, {"use.deprecated.format": False})(given_, VALUE)
    ours = registered(registry, schema=cls, topic="orders")
    done = ours.decode(binary(theirs, theirs[:4], theirs))
    assert done.origin.to_pylist() == [0, 2]
    assert len(done.errors) == 1
    again = registered(registry, schema=cls, topic="mine", register=True).encode(done.rows)
    read = ProtobufDeserializer(cls, {"use.deprecated.format": False}, client)
    assert again.errors == ()
    assert read(again.values[0].as_py(), VALUE) == given_


def test_another_message_of_the_same_file_is_an_error_of_its_own(registry):
    client = SchemaRegistryClient({"url": registry.url})
    write = {
        c: ProtobufSerializer(c, client, {"use.deprecated.format": False}) for c in (Order, Unused)
    }
    values = [write[Order](Order(id=1), VALUE), write[Unused](Unused(a="x"), VALUE)]
    done = registered(registry, schema=Order).decode(binary(*values))
    assert done.rows.column("id").to_pylist() == [1]
    assert "Unused" in done.errors[0].message


def test_the_registrys_own_schema_can_be_the_readers(registry):
    client = SchemaRegistryClient({"url": registry.url})
    value = ProtobufSerializer(Order, client, {"use.deprecated.format": False})(Order(id=3), VALUE)
    reader = registered(registry, topic="orders", message="penstock.test.Order")
    assert pickle.loads(pickle.dumps(reader)).decode(binary(value)).rows.column(
        "id"
    ).to_pylist() == [3]


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_any_bytes_give_rows_or_errors(values):
    done = CODER.decode(pa.array(values, pa.binary()))
    assert done.rows.num_rows + len(done.errors) == len(values)


def importing():
    """A message whose file imports another, which imports a third."""
    text = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
    pool = descriptor_pool.DescriptorPool()
    inner = None
    for name in ("City", "Street", "Order"):
        file = descriptor_pb2.FileDescriptorProto(
            name=f"{name.lower()}.proto", package="refs", syntax="proto3"
        )
        made = file.message_type.add(name=name)
        made.field.add(name="name", number=1, type=text, label=1)
        if inner is not None:
            file.dependency.append(f"{inner.lower()}.proto")
            made.field.add(name="to", number=2, type=11, type_name=f".refs.{inner}", label=1)
        pool.Add(file)
        inner = name
    cls = message_factory.GetMessageClass(pool.FindMessageTypeByName("refs.Order"))
    sent = cls(name="o")
    sent.to.to.name = "a"
    return cls, sent


ROW = {"name": "o", "to": {"name": "", "to": {"name": "a"}}}


def test_files_that_a_registered_schema_imports_are_followed(registry):
    cls, sent = importing()
    client = SchemaRegistryClient({"url": registry.url})
    value = ProtobufSerializer(cls, client, {"use.deprecated.format": False})(sent, VALUE)
    reader = registered(registry, topic="orders", message="refs.Order")
    done = reader.decode(binary(value))
    assert done.rows.to_pylist() == [ROW]
    again = registered(registry, schema=cls, topic="orders").encode(done.rows)
    assert again.values.to_pylist() == [value], "found under the id that Confluent's client gave it"


def test_imports_are_registered_before_what_imports_them(registry):
    cls, sent = importing()
    rows = pa.RecordBatch.from_pylist([ROW], schema=registered(registry, schema=cls).schema())
    refused = registered(registry, schema=cls, topic="mine").encode(rows)
    assert "city.proto" in refused.errors[0].message
    done = registered(registry, schema=cls, topic="mine", register=True).encode(rows)
    assert done.errors == ()
    client = SchemaRegistryClient({"url": registry.url})
    latest = client.get_latest_version("mine-value").schema
    assert [(each.name, each.subject) for each in latest.references] == [
        ("street.proto", "street.proto")
    ]
    read = ProtobufDeserializer(cls, {"use.deprecated.format": False}, client)
    assert read(done.values[0].as_py(), VALUE) == sent
    reader = registered(registry, topic="mine", message="refs.Order")
    assert reader.decode(done.values).rows.to_pylist() == [ROW]


def test_of_a_oneof_the_last_member_counts():
    left, right = Order(left="x").SerializeToString(), Order(right=3).SerializeToString()
    both, back, nested = left + right, right + left, Order(id=1).SerializeToString()
    done = CODER.decode(binary(both, left, back, nested))
    found = [(row["left"], row["right"]) for row in done.rows.to_pylist()]
    assert found == [(None, 3), ("x", None), ("x", None), (None, None)]
    narrow = CODER.narrowed(["left"]).decode(binary(both, left, back))
    assert narrow.rows.column("left").to_pylist() == [None, "x", "x"]


def test_two_members_of_a_oneof_cannot_be_written():
    rows = CODER.decode(binary(Order(left="x").SerializeToString())).rows.to_pylist()
    rows = pa.RecordBatch.from_pylist([rows[0], {**rows[0], "right": 3}], schema=CODER.schema())
    done = CODER.encode(rows)
    assert done.values.to_pylist() == [Order(left="x").SerializeToString(), None]
    assert [(e.row, e.message) for e in done.errors] == [
        (1, "of left and right only one can be set")
    ]


def test_of_map_entries_with_one_key_the_last_stays():
    entry = [
        Order(counts={key: n}).SerializeToString() for key, n in (("a", 1), ("b", 2), ("a", 3))
    ]
    done = CODER.decode(binary(b"".join(entry), entry[0], b"".join(entry[1:])))
    assert done.rows.column("counts").to_pylist() == [
        [("a", 3), ("b", 2)],
        [("a", 1)],
        [("b", 2), ("a", 3)],
    ]
    assert dict(Order.FromString(b"".join(entry)).counts) == {"a": 3, "b": 2}


def test_an_enums_number_without_a_name_comes_back():
    value = Order(status=99, statuses=[1, -7]).SerializeToString()
    rows = CODER.decode(binary(value)).rows
    assert rows.column("status").to_pylist() == ["99"]
    assert CODER.encode(rows).values.to_pylist() == [value]
    odd = [{**rows.to_pylist()[0], "status": text} for text in ("nine", str(2**31), "٣")]
    done = CODER.encode(pa.RecordBatch.from_pylist(odd, schema=CODER.schema()))
    assert [error.row for error in done.errors] == [0, 1, 2]


def test_the_registrys_own_schema_is_written_with_under_its_own_id(registry):
    client = SchemaRegistryClient({"url": registry.url})
    value = ProtobufSerializer(Order, client, {"use.deprecated.format": False})(Order(id=3), VALUE)
    writer = registered(registry, topic="orders", message="penstock.test.Order")
    rows = writer.decode(binary(value)).rows
    registry.requests.clear()
    assert pickle.loads(pickle.dumps(writer)).encode(rows).values.to_pylist() == [value]
    assert registry.requests == []
