import io
import json
import pickle
import random
import uuid

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.tests.coders import avro_reference as reference
from core.tests.coders import avro_strategies
from core.tests.coders.strategies import batches, flat_types, nested
from penstock.coders.avro import container, types
from penstock.coders.avro.coder import AvroCoder
from penstock.coders.parts import spans
from penstock.contracts.errors import OptionError, SchemaError
from penstock.contracts.options import parse

FLAT = {
    "type": "record",
    "name": "flat",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "city", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
ROW = {"id": 300, "name": "abc", "city": "Oslo", "tags": ["a", "bc"]}


def written(schema, *objects):
    parsed = fastavro.parse_schema(schema)
    values = []
    for each in objects:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, each)
        values.append(out.getvalue())
    return values


def binary(*values):
    return pa.array(values, pa.binary())


def by_fastavro(schema, values):
    parsed = fastavro.parse_schema(schema)
    return reference.decode(values, parsed, parsed, types.parse(schema))


@given(st.data())
@settings(max_examples=150)
def test_the_fast_path_reads_and_writes_as_fastavro_does(data):
    schema = data.draw(avro_strategies.schemas())
    objects = data.draw(st.lists(avro_strategies.data(schema), max_size=6))
    values = written(schema, *objects)
    coder = AvroCoder(schema=schema)
    done = coder.decode(pa.array(values, pa.binary()))
    assert done.errors == ()
    done.rows.validate(full=True)
    assert done.rows.equals(by_fastavro(schema, values))
    encoded = coder.encode(done.rows)
    assert encoded.errors == ()
    assert encoded.values.to_pylist() == values


@given(st.data())
@settings(max_examples=60)
def test_a_value_stays_in_the_branch_it_was_written_in(data):
    """Held to what was written: fastavro reads a value without telling its branch."""
    schema = data.draw(avro_strategies.schemas(unions=avro_strategies.AMBIGUOUS))
    objects = data.draw(st.lists(avro_strategies.data(schema), max_size=6))
    values = written(schema, *objects)
    coder = AvroCoder(schema=schema)
    done = coder.decode(pa.array(values, pa.binary()))
    assert done.errors == ()
    assert done.rows.equals(
        reference.batch(objects, fastavro.parse_schema(schema), types.parse(schema))
    )
    assert coder.encode(done.rows).values.to_pylist() == values
    file = io.BytesIO()
    fastavro.writer(file, fastavro.parse_schema(schema), objects)
    whole = AvroCoder(schema=schema, framing="container").decode(binary(file.getvalue()))
    assert whole.errors == ()
    assert whole.rows.equals(done.rows)


@given(batches(nested(flat_types(), maps=True), finite=False))
def test_any_rows_come_back_with_a_schema_made_from_theirs(rows):
    coder = AvroCoder(schema=rows.schema)
    back = coder.decode(coder.encode(rows).values).rows
    assert back.to_pylist() == rows.to_pylist()


@given(st.data())
@settings(max_examples=80)
def test_damaged_records_never_change_their_neighbours(data):
    schema = data.draw(avro_strategies.schemas())
    objects = data.draw(st.lists(avro_strategies.data(schema), min_size=1, max_size=5))
    values = written(schema, *objects)
    noise = data.draw(st.lists(st.binary(max_size=25), min_size=1, max_size=3))
    cut = [value[:-1] for value in values if value]
    mixed = [(v, True) for v in values] + [(v, False) for v in (*noise, *cut)]
    mixed = data.draw(st.permutations(mixed))
    coder = AvroCoder(schema=schema)
    done = coder.decode(pa.array([value for value, _ in mixed], pa.binary()))
    origin = range(len(mixed)) if done.origin is None else done.origin.to_pylist()
    bad = {error.row for error in done.errors}
    assert sorted([*origin, *bad]) == list(range(len(mixed)))
    assert not any(mixed[row][1] for row in bad)
    for place, row in enumerate(origin):
        alone = coder.decode(pa.array([mixed[row][0]], pa.binary())).rows
        assert done.rows.slice(place, 1).to_pylist() == alone.to_pylist()


@pytest.mark.parametrize("cut", range(1, len(written(FLAT, ROW)[0])))
def test_a_truncated_record_is_one_error_wherever_it_is_cut(cut):
    (value,) = written(FLAT, ROW)
    done = AvroCoder(schema=FLAT).decode(binary(value, value[:cut], value))
    assert done.rows.to_pylist() == [ROW, ROW]
    assert done.origin.to_pylist() == [0, 2]
    assert [error.row for error in done.errors] == [1]


BAD = {
    "a length beyond the record": (FLAT, b"\x02\xff\xff\xff\xff\x0f"),
    "a negative length": (FLAT, b"\x02\x01"),
    "a varint that never ends": (FLAT, b"\xff" * 12),
    "a varint of eleven bytes": (
        {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]},
        b"\x80" * 10 + b"\x01",
    ),
    "a branch that is not there": (FLAT, b"\x02\x02a\x06"),
    "a negative branch": (FLAT, b"\x02\x02a\x01"),
    "more items than bytes": (FLAT, b"\x02\x02a\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    "items without end": (FLAT, b"\x02\x02a\x00\x01"),
    "text that is not UTF-8": (FLAT, b"\x02\x02\xff\x00\x00"),
    "text in an array that is not UTF-8": (FLAT, b"\x02\x02a\x00\x02\x02\xff\x00"),
    "bytes left over": (FLAT, written(FLAT, ROW)[0] + b"\x00"),
    "nothing": (FLAT, b""),
}


@pytest.mark.parametrize("name", BAD)
def test_hostile_bytes_are_a_typed_error_of_their_record(name):
    schema, bad = BAD[name]
    if schema is FLAT:
        good, expected = written(FLAT, ROW)[0], ROW
    else:
        good, expected = written(schema, {"a": 1})[0], {"a": 1}
    done = AvroCoder(schema=schema).decode(binary(good, bad, good))
    assert done.rows.to_pylist() == [expected, expected]
    (error,) = done.errors
    assert error.row == 1
    assert error.kind == "CodecError"


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        ("int", b"\x80\x80\x80\x80\x10"),
        ("boolean", b"\x02"),
        ({"type": "int", "logicalType": "time-millis"}, b"\xff\xff\xff\xff\x0f"),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xff" * 9 + b"\x01"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}, b"\x02\x64"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0},
            b"\x22\x01" + b"\x00" * 16,
        ),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, b"\x02"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\x0f\x00"),
    ],
)
def test_values_out_of_range_are_an_error(kind, raw):
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}
    done = AvroCoder(schema=schema).decode(binary(raw))
    assert (done.rows.num_rows, len(done.errors)) == (0, 1)
    assert "a" in done.errors[0].message


def test_errors_name_the_field_and_never_the_payload():
    (value,) = written(FLAT, {**ROW, "name": "CANARY"})
    done = AvroCoder(schema=FLAT).decode(binary(value[:5]))
    assert "name" in done.errors[0].message
    assert "CANARY" not in str(done.errors)


def test_bad_rows_among_many_are_all_found(penstock_seed):
    pick = random.Random(penstock_seed)
    objects = [{**ROW, "id": i, "tags": ["t"] * (i % 5)} for i in range(20_000)]
    values = written(FLAT, *objects)
    bad = sorted(pick.sample(range(20_000), 20))
    for row in bad:
        values[row] = values[row][: pick.randrange(len(values[row]))]
    done = AvroCoder(schema=FLAT).decode(binary(*values))
    assert [error.row for error in done.errors] == bad
    assert done.rows.column("id").to_pylist() == [i for i in range(20_000) if i not in bad]
    assert done.origin.to_pylist() == done.rows.column("id").to_pylist()


def test_batches_are_cut_by_rows_and_by_bytes():
    values = binary(*[bytes(n) for n in (5, 0, 5, 5, 20, 1, 1, 1)])
    assert list(spans(values, rows=3, size=10)) == [(0, 3), (3, 4), (4, 5), (5, 8)]
    assert list(spans(values.slice(2, 3), rows=9, size=10)) == [(0, 2), (2, 3)]
    assert list(spans(binary(), rows=3)) == []


def test_a_few_very_long_arrays_are_read_too():
    long = {**ROW, "tags": [f"t{i}" for i in range(5000)]}
    objects = [ROW] * 40 + [long] + [ROW] * 3
    values = written(FLAT, *objects)
    values[2] = values[2][:-1]
    values.append(values[40][:-1])
    done = AvroCoder(schema=FLAT).decode(binary(*values))
    assert done.rows.to_pylist() == [ROW] * 39 + [long] + [ROW] * 3
    assert [error.row for error in done.errors] == [2, 44]


def test_blocks_with_a_size_and_several_blocks_are_read():
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": {"type": "array", "items": "long"}}],
    }
    blocks = b"\x03\x04\x02\x04" + b"\x02\x06" + b"\x00"
    done = AvroCoder(schema=schema).decode(binary(blocks, b"\x00", b"\x02\x08\x00"))
    assert done.rows.column(0).to_pylist() == [[1, 2, 3], [], [4]]


def test_a_uuid_of_sixteen_bytes_is_text_and_comes_back():
    # fastavro reads no UUID in a fixed type, so that the value is made by hand.
    kind = {"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", kind]}]}
    ident = uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")
    coder = AvroCoder(schema=schema)
    done = coder.decode(binary(b"\x02" + ident.bytes, b"\x00", b"\x02" + ident.bytes[:9]))
    assert done.rows.column(0).to_pylist() == [str(ident), None]
    assert [error.row for error in done.errors] == [2]
    assert coder.encode(done.rows).values.to_pylist() == [b"\x02" + ident.bytes, b"\x00"]


def test_nanoseconds_are_cut_to_microseconds():
    kind = {"type": "long", "logicalType": "timestamp-nanos"}
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}
    coder = AvroCoder(schema=schema)
    rows = coder.decode(binary(b"\x9e\x1f", b"\x01")).rows
    assert rows.column(0).cast(pa.int64()).to_pylist() == [1, -1]


def test_tombstones_give_no_row_and_no_error():
    (value,) = written(FLAT, ROW)
    done = AvroCoder(schema=FLAT).decode(binary(None, value, None))
    assert (done.origin.to_pylist(), done.errors) == ([1], ())


def test_narrowing_skips_the_other_fields():
    (value,) = written(FLAT, ROW)
    coder = AvroCoder(schema=FLAT).narrowed(["tags", "id"])
    assert coder.schema().names == ["id", "tags"]
    assert coder.decode(binary(value)).rows.to_pylist() == [{"id": 300, "tags": ["a", "bc"]}]


def test_single_objects_are_told_apart_by_their_fingerprint():
    other = {**FLAT, "fields": FLAT["fields"][:2]}
    new = AvroCoder(schema=FLAT, framing="single-object")
    reader = {**FLAT, "fields": [*FLAT["fields"][:2], {**FLAT["fields"][2], "default": None}]}
    old = AvroCoder(schema=other, framing="single-object")
    a = new.encode(_rows(new, ROW)).values[0].as_py()
    b = old.encode(_rows(old, {"id": 1, "name": "b"})).values[0].as_py()
    assert a[:2] == b[:2] == b"\xc3\x01"
    both = AvroCoder(schema=reader, writer=[FLAT, other], framing="single-object")
    done = both.decode(binary(b, a, b"\xc3\x01abcdefgh", b"nonsense", b))
    assert done.rows.column("name").to_pylist() == ["b", "abc", "b"]
    assert done.rows.column("city").to_pylist() == [None, "Oslo", None]
    assert [error.row for error in done.errors] == [2, 3]


def _rows(coder, *objects):
    schema = coder.schema()
    return pa.RecordBatch.from_pylist(list(objects), schema=schema)


def test_the_fingerprint_is_the_one_the_specification_gives():
    from penstock.coders.avro.framing import fingerprint

    # From Avro's own test data (share/test/data/schema-tests.txt).
    assert int.from_bytes(fingerprint("null"), "little") == 7195948357588979594
    assert int.from_bytes(fingerprint("int"), "little") == 8247732601305521295


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_container_files_give_a_row_per_record(codec):
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(FLAT), [ROW] * 50, codec=codec, sync_interval=100)
    coder = AvroCoder(schema=FLAT, framing="container")
    whole = out.getvalue()
    done = coder.decode(binary(whole, b"Obj\x01no", None, whole[:-20], whole))
    assert done.rows.to_pylist() == [ROW] * 100
    assert done.origin.to_pylist() == [0] * 50 + [4] * 50
    assert [error.row for error in done.errors] == [1, 3]


def test_fastavro_reads_the_container_files_we_write():
    coder = AvroCoder(schema=FLAT, framing="container")
    encoded = coder.encode(_rows(coder, ROW, {**ROW, "id": 2})).values.to_pylist()
    assert [list(fastavro.reader(io.BytesIO(each))) for each in encoded] == [
        [ROW],
        [{**ROW, "id": 2}],
    ]


def test_a_container_file_cannot_grow_without_bound():
    out = io.BytesIO()
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "bytes"}]}
    fastavro.writer(out, fastavro.parse_schema(schema), [{"a": bytes(10_000_000)}], codec="deflate")
    coder = AvroCoder(schema=schema, framing="container", max_size=1_000_000)
    assert "max_size" in coder.decode(binary(out.getvalue())).errors[0].message


def test_a_container_file_whose_schema_holds_itself_is_refused():
    link = {"type": "record", "name": "l", "fields": [{"name": "next", "type": ["null", "l"]}]}
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(link), [{"next": {"next": None}}])
    flat = {"type": "record", "name": "l", "fields": [{"name": "next", "type": "null"}]}
    done = AvroCoder(schema=flat, framing="container").decode(binary(out.getvalue()))
    assert [error.row for error in done.errors] == [0]
    assert "the schema in the container file" in done.errors[0].message


def test_rows_that_avro_cannot_hold_are_errors_of_their_own():
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "a", "type": "long"},
            {"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["X", "Y"]}},
            {"name": "f", "type": {"type": "fixed", "name": "f", "size": 2}},
        ],
    }
    coder = AvroCoder(schema=schema)
    rows = _rows(
        coder,
        {"a": 1, "e": "X", "f": b"ab"},
        {"a": None, "e": "X", "f": b"ab"},
        {"a": 3, "e": "Z", "f": b"ab"},
        {"a": 4, "e": "Y", "f": b"abc"},
        {"a": 5, "e": "Y", "f": b"cd"},
    )
    done = coder.encode(rows)
    assert [error.row for error in done.errors] == [1, 2, 3]
    assert done.values.is_null().to_pylist() == [False, True, True, True, False]
    assert coder.decode(done.values).rows.column("a").to_pylist() == [1, 5]


@pytest.mark.parametrize(
    "schema",
    [
        '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "r"}]}',
        '{"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": ["null", "r"]}}]}',
        '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "nowhere"}]}',
        '{"type": "record", "name": "r", "fields": [{"name": "a"}]}',
        '{"type": "record", "fields": []}',
        '{"type": "fixed", "name": "f", "size": -1}',
        '{"type": "enum", "name": "e", "symbols": []}',
        '{"type": "bytes", "logicalType": "decimal", "precision": 50}',
        '["null", ["null", "int"]]',
        '{"type": ',
        "[" * 100_000,
        json.dumps({"type": "array", "items": "int"}).replace(
            '"int"', '{"type": "array", "items": ' * 100 + '"int"' + "}" * 100
        ),
    ],
    ids=range(12),
)
def test_a_schema_without_columns_is_refused(schema):
    with pytest.raises(SchemaError):
        AvroCoder(schema=schema).schema()


def test_options_that_contradict_each_other_are_refused():
    for options in ({}, {"framing": "registry"}, {"schema": "a INT", "registry.url": "http://x"}):
        with pytest.raises(OptionError):
            parse(AvroCoder, options)


def test_it_pickles_with_its_schema():
    coder = AvroCoder(schema=FLAT)
    coder.schema()
    again = pickle.loads(pickle.dumps(coder))
    assert again == coder
    assert again.decode(binary(*written(FLAT, ROW))).rows.to_pylist() == [ROW]


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_any_bytes_give_rows_or_errors(values):
    for framing in ("none", "single-object", "container"):
        done = AvroCoder(schema=FLAT, framing=framing).decode(pa.array(values, pa.binary()))
        assert done.rows.num_rows + len(done.errors) == len(values)


def test_a_schema_of_a_few_names_that_stands_for_billions_of_fields_is_refused():
    kind = {"type": "record", "name": "r0", "fields": [{"name": "a", "type": "null"}]}
    for level in range(1, 60):
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": f"r{level - 1}"}]
        kind = {"type": "record", "name": f"r{level}", "fields": fields}
    with pytest.raises(SchemaError, match="too large"):
        AvroCoder(schema=kind).schema()
    small = {"type": "record", "name": "r59", "fields": []}
    done = AvroCoder(schema=small, framing="container").decode(binary(_file(kind, 1, b"")))
    assert "too large" in done.errors[0].message


def _file(schema, count, block):
    body = container.header(schema) + bytes([count * 2, len(block) * 2]) + block
    return body + container.SYNC


@pytest.mark.parametrize("items", ["null", {"type": "record", "name": "e", "fields": []}])
def test_items_that_take_no_bytes_cannot_keep_a_reader_busy(items):
    """2**62 items, in a field that the reader wants, and in one that it skips."""
    kind = {"type": "array", "items": items}
    writer = {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}
    raw = b"\xfe" + b"\xff" * 8 + b"\x01\x00"
    other = {"name": "b", "type": "int", "default": 1}
    for reader in (writer, {**writer, "fields": [other]}):
        coder = AvroCoder(schema=reader, framing="container")
        done = coder.decode(binary(_file(writer, 1, raw), _file(writer, 1, b"\x02\x00")))
        assert [error.row for error in done.errors] == [0]
        assert "more items" in done.errors[0].message
        assert done.rows.num_rows == 1


def test_a_file_of_records_that_take_no_bytes_is_bounded():
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "null"}]}
    coder = AvroCoder(schema=schema, framing="container")
    block = b"\xd0\x0f\x00" + container.SYNC
    head = container.header(schema)
    done = coder.decode(binary(head + block, head + block * 2))
    assert (done.rows.num_rows, [error.row for error in done.errors]) == (1000, [1])


def test_unions_within_unions_are_resolved_in_a_bounded_time():
    def nested(depth, kind):
        name = f"r{depth}"
        inner = kind if not depth else nested(depth - 1, kind)
        return {"type": "record", "name": name, "fields": [{"name": "a", "type": ["null", inner]}]}

    coder = AvroCoder(schema=nested(25, "long"), writer=nested(25, "int"))
    assert coder.decode(binary(b"\x00")).rows.to_pylist() == [{"a": None}]


LONG = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "u", "type": {"type": "array", "items": ["int", "long"]}},
        {"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["A", "B"]}},
        {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
    ],
}


def test_a_record_with_long_arrays_is_read_as_a_short_one_is():
    """The branch of a union stays the one that was written, and a lost symbol is an error."""
    short = b"\x04\x02\x0a\x00\x0c\x00" + b"%s" + b"\x02\x02k\x02\x02v\x00\x00"
    many = b"\x90\x4e" + b"\x02\x0a\x00\x0c" * 2500 + b"\x00" + b"%s" + b"\x00"
    values = [short % b"\x00", many % b"\x00", many % b"\x02", short % b"\x02", many % b"\x04"]
    reader = json.loads(json.dumps(LONG).replace('"A", "B"', '"A"'))
    done = AvroCoder(schema=reader, writer=LONG).decode(binary(*values))
    assert [error.row for error in done.errors] == [2, 3, 4]
    assert [e.message for e in done.errors][:2] == [
        "e has a symbol that the reader's schema lacks"
    ] * 2
    pair = [{"member0": None, "member1": 5}, {"member0": 6, "member1": None}]
    assert done.rows.column("u").to_pylist() == [pair, pair * 2500]


@pytest.mark.parametrize("blocks", [True, False])
def test_long_arrays_within_long_maps_are_read_as_fastavro_reads_them(penstock_seed, blocks):
    pick = random.Random(penstock_seed)
    kind = {"type": "map", "values": {"type": "array", "items": ["null", "string", "double"]}}
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}
    one = [None, "x" * 70, 1.5]
    rows = [
        {"a": {str(i): pick.choices(one, k=pick.choice([0, 1, 200])) for i in range(size)}}
        for size in (0, 300, 3, 100)
    ]
    values = written(schema, *rows)
    if blocks:
        values = [_blocks(row["a"]) for row in rows]
    done = AvroCoder(schema=schema).decode(binary(*values, values[1][:-1], values[1][:500]))
    assert [error.row for error in done.errors] == [4, 5]
    assert done.rows.equals(by_fastavro(schema, values))


def _blocks(entries):
    """A map with a block for each entry."""
    array = {"type": "array", "items": ["null", "string", "double"]}
    out = b""
    for key, items in entries.items():
        out += b"\x02" + written("string", key)[0] + written(array, items)[0]
    return out + b"\x00"


def test_of_map_entries_with_one_key_the_last_stays():
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": {"type": "map", "values": "int"}}],
    }
    values = [b"\x06\x02a\x02\x02b\x04\x02a\x06\x00", b"\x02\x02a\x02\x00", b"\x00"]
    rows = AvroCoder(schema=schema).decode(binary(*values)).rows
    assert rows.column(0).to_pylist() == [[("a", 3), ("b", 2)], [("a", 1)], []]
    assert rows.equals(by_fastavro(schema, values))


@pytest.mark.parametrize(
    "broken",
    [
        {"type": "enum", "name": "e", "symbols": 5},
        {"type": "enum", "name": "e", "symbols": ["\ud800"]},
        {"type": "record", "name": "i", "fields": [{"name": "\ud800", "type": "int"}]},
        {"type": "record", "name": "i", "fields": [{"name": 7, "type": "int"}]},
        {"type": "record", "name": "i", "fields": 7},
        {"type": 7},
    ],
    ids=range(6),
)
def test_a_file_whose_schema_is_none_is_an_error_of_its_own(broken):
    writer = {"type": "record", "name": "r", "fields": [{"name": "a", "type": broken}]}
    reader = {**writer, "fields": [{"name": "b", "type": "int", "default": 1}]}
    coder = AvroCoder(schema=reader, framing="container")
    good = _file(reader, 1, b"\x02")
    done = coder.decode(binary(good, _file(writer, 1, b"\x00"), good))
    assert (done.rows.num_rows, [error.row for error in done.errors]) == (2, [1])
    assert "the schema in the container file" in done.errors[0].message
