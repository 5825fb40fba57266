import json
import pickle
import random

import pyarrow as pa
import pyarrow.json as pj
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.tests.coders.strategies import batches, flat_types, nested
from penstock.coders import jsonobjects
from penstock.coders.json import JsonCoder
from penstock.contracts.errors import OptionError, SchemaError
from penstock.contracts.options import parse


def binary(*values):
    return pa.array(values, pa.binary())


@given(batches(nested(flat_types(), maps=True)))
def test_any_rows_come_back(rows):
    coder = JsonCoder(schema=rows.schema)
    encoded = coder.encode(rows)
    assert encoded.errors == ()
    assert [json.loads(v) is not None for v in encoded.values.to_pylist()] == [True] * len(rows)
    done = coder.decode(encoded.values)
    assert done.errors == ()
    assert done.rows.equals(rows)


@given(batches(nested(flat_types(), maps=False)))
def test_the_fast_path_and_the_plain_rules_agree(rows):
    coder = JsonCoder(schema=rows.schema)
    texts = coder.encode(rows).values
    objects = [jsonobjects.parse(text, exact=True) for text in texts.to_pylist()]
    plain = jsonobjects.from_objects(objects, rows.schema)
    assert plain.equals(coder.decode(texts).rows)


@given(batches(st.sampled_from([pa.int64(), pa.float64(), pa.string(), pa.bool_()])))
def test_pyarrow_reads_what_we_write(rows):
    text = b"\n".join(JsonCoder(schema=rows.schema).encode(rows).values.to_pylist())
    if rows.num_rows:
        options = pj.ParseOptions(explicit_schema=rows.schema)
        assert pj.read_json(pa.BufferReader(text), parse_options=options).equals(
            pa.Table.from_batches([rows])
        )


BAD = {
    b"": "not one JSON object",
    b"  ": "not one JSON object",
    b"1": "not one JSON object",
    b"[]": "not one JSON object",
    b"null": "not one JSON object",
    b'{"id":1': "not one JSON object",
    b'{"id":1}{"id":2}': "more than one",
    b'{"id":1}\n{"id":2}': "more than one",
    b'{"id":"x"}': "/id holds a JSON string",
    b'{"id":1.5}': "field id",
    b'{"id":9223372036854775808}': "field id",
    b'{"id":1,"id":2}': "twice",
    b'{"name":"a\nb"}': "not valid JSON",
    b'{"name":"\\ud800"}': "not valid JSON",
    b'{"name":"}': "not valid JSON",
    b'{"name":"\xff"}': "utf-8",
    b'{"day":"2020-13-01"}': "field day",
    b'{"raw":"***"}': "field raw",
    b'{"x":{}': "not valid JSON",
    b'{"id":1,}': "not valid JSON",
    b"{'id':1}": "not valid JSON",
    b"\x00{}": "not one JSON object",
}
SCHEMA = "id BIGINT, name STRING, day DATE, raw BINARY"


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: repr(bad)[:30])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_bad_record_is_named_and_its_neighbours_are_read(bad, count):
    good = [b'{"id":%d,"name":"n%d"}' % (i, i) for i in range(count)]
    done = JsonCoder(schema=SCHEMA).decode(binary(*good, bad, *good))
    assert done.rows.column("id").to_pylist() == [*range(count), *range(count)]
    assert done.origin.to_pylist() == [*range(count), *range(count + 1, 2 * count + 1)]
    (error,) = done.errors
    assert error.row == count
    assert BAD[bad] in error.message


def test_two_bad_records_that_make_a_whole_together_stay_apart():
    halves = [b'{"id":1,"xs":[{"a":1}', b'{"a":2}]}', b'{"id":[{"a":2}', b'{"id":4}{"id":5}']
    done = JsonCoder(schema=SCHEMA).decode(binary(b'{"id":0}', *halves, b'{"id":6}'))
    assert done.rows.column("id").to_pylist() == [0, 6]
    assert [error.row for error in done.errors] == [1, 2, 3, 4]


def test_errors_never_repeat_the_payload():
    values = [
        b'{"id":"CANARY"}',
        b'{"day":"CANARY"}',
        b"CANARY",
        b'{"id":CANARY}',
        b'{"raw":"CAN*"}',
    ]
    for layout in ("record", "lines", "array"):
        done = JsonCoder(schema=SCHEMA, layout=layout).decode(binary(*values))
        assert len(done.errors) == len(values)
        assert "CAN" not in str(done.errors)


def test_bad_rows_among_many_are_all_found(penstock_seed):
    pick = random.Random(penstock_seed)
    values = [b'{"id":%d,"day":"2020-01-01"}' % i for i in range(3000)]
    bad = sorted(pick.sample(range(3000), 40))
    for row in bad:
        values[row] = pick.choice([b'{"id":"x"}', b'{"day":"x"}', b"{", b"", b'{"id":1}{}'])
    done = JsonCoder(schema=SCHEMA).decode(binary(*values))
    assert [error.row for error in done.errors] == bad
    assert done.origin.to_pylist() == [row for row in range(3000) if row not in bad]
    assert done.rows.column("id").to_pylist() == done.origin.to_pylist()


def test_white_space_a_mark_and_new_lines_around_a_record_are_no_error():
    values = binary(b' {"id":1}\r\n', b'\xef\xbb\xbf{"id":2}', b'{\n "id":\n 3\n}', b'{"id":4}')
    assert JsonCoder(schema="id INT").decode(values).rows.column(0).to_pylist() == [1, 2, 3, 4]


def test_a_tombstone_gives_no_row_and_no_error():
    done = JsonCoder(schema="id INT").decode(binary(None, b'{"id":1}', None))
    assert (done.origin.to_pylist(), done.errors) == ([1], ())


def test_nothing_decodes_to_nothing():
    assert JsonCoder(schema=SCHEMA).decode(binary()).rows.num_rows == 0
    assert JsonCoder(schema=SCHEMA).decode(binary(None)).origin.to_pylist() == []


@pytest.mark.parametrize("layout", ["array", "lines"])
def test_a_bad_element_makes_its_whole_message_an_error(layout):
    def message(*records):
        if layout == "lines":
            return b"\n".join(records)
        return b"[" + b", ".join(records) + b"]"

    done = JsonCoder(schema="id INT", layout=layout).decode(
        binary(
            message(b'{"id":1}', b'{"id":2}'),
            message(b'{"id":3}', b'{"id":"x"}', b'{"id":4}'),
            None,
            message(),
            message(b'{"id":5}', b"7"),
            message(b'{"id":6}'),
        )
    )
    assert done.rows.column("id").to_pylist() == [1, 2, 6]
    assert done.origin.to_pylist() == [0, 0, 5]
    assert [error.row for error in done.errors] == [1, 4]


@pytest.mark.parametrize(
    "bad", [b"[{}", b"[{}]]", b"[{} {}]", b'[],"x":[]', b"[,]", b"[{},]", b"{}"]
)
def test_what_is_not_one_array_is_an_error(bad):
    done = JsonCoder(schema="id INT", layout="array").decode(binary(b'[{"id":1}]', bad))
    assert (done.origin.to_pylist(), done.errors[0].row) == ([0], 1)


def test_narrowing_reads_only_those_columns():
    coder = JsonCoder(schema=SCHEMA).narrowed(["name", "id"])
    assert coder.schema().names == ["id", "name"]
    done = coder.decode(binary(b'{"id":1,"day":"never looked at"}'))
    assert done.rows.to_pylist() == [{"id": 1, "name": None}]


def test_old_and_new_records_are_read_with_one_schema():
    values = binary(b'{"id":1}', b'{"id":2,"name":"b","more":{"x":[1]}}')
    assert JsonCoder(schema="id INT, name STRING").decode(values).rows.to_pylist() == [
        {"id": 1, "name": None},
        {"id": 2, "name": "b"},
    ]


def test_a_number_json_lacks_is_an_error_of_its_row():
    rows = pa.RecordBatch.from_pydict(
        {"xs": pa.array([[1.0], [2.0, float("nan")], None, []], pa.list_(pa.float64()))}
    )
    done = JsonCoder(schema=rows.schema).encode(rows)
    assert done.values.to_pylist() == [b'{"xs":[1]}', None, b'{"xs":null}', b'{"xs":[]}']
    assert [error.row for error in done.errors] == [1]


def test_a_schema_is_inferred_from_a_sample(tmp_path):
    sample = tmp_path / "sample.json"
    sample.write_text('{"id":1,"tags":["a"]}\n\n{"id":2,"price":1.5}\n')
    coder = parse(JsonCoder, {"sample": str(sample)})
    tags = pa.list_(pa.field("element", pa.string()))
    assert coder.schema() == pa.schema(
        [("id", pa.int64()), ("tags", tags), ("price", pa.float64())]
    )


def test_one_schema_is_needed():
    for options in ({}, {"schema": "a INT", "sample": "x"}):
        with pytest.raises(OptionError, match="one schema"):
            parse(JsonCoder, options)
    with pytest.raises(SchemaError):
        JsonCoder(schema="a WHAT").schema()


def test_it_pickles():
    coder = JsonCoder(schema="id INT", layout="lines")
    assert pickle.loads(pickle.dumps(coder)) == coder


@given(st.lists(st.binary(max_size=30)))
def test_any_bytes_give_rows_or_errors(values):
    done = JsonCoder(schema=SCHEMA).decode(pa.array(values, pa.binary()))
    assert done.rows.num_rows + len(done.errors) == len(values)


MAPPED = "id BIGINT, ratio FLOAT, name STRING, counts MAP<STRING, BIGINT>"


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (b'{"name":"\\ud800"}', "name"),
        (b'{"counts":{"\\ud800":1}}', "counts"),
        (b'{"id":1,"id":2}', "id comes twice"),
        (b'{"counts":{"a":1,"a":2}}', "twice"),
        (b'{"ratio":NaN}', "not valid JSON"),
        (b'{"ratio":-Infinity}', "not valid JSON"),
        (b'{"ratio":1e300}', "ratio"),
        (b'{"name":' + b"[" * 100_000 + b"}", "nested too deep"),
    ],
    ids=range(8),
)
def test_a_schema_with_a_map_refuses_what_others_refuse(bad, said):
    good = b'{"id":1,"x":0,"x":1,"counts":{"a":2}}'
    values = pa.array([good, bad, good], pa.binary())
    done = JsonCoder(schema=MAPPED).decode(values)
    assert done.rows.column("counts").to_pylist() == [[("a", 2)]] * 2
    assert [error.row for error in done.errors] == [1]
    assert said in done.errors[0].message


@pytest.mark.parametrize("columns", ["a FLOAT", "a STRUCT<b: ARRAY<FLOAT>>"])
def test_a_number_that_a_float_cannot_hold_is_an_error(columns):
    text = b'{"a":%s}' if columns == "a FLOAT" else b'{"a":{"b":[1,%s]}}'
    values = pa.array([text % b"1.5", text % b"1e300", text % b"-2"], pa.binary())
    done = JsonCoder(schema=columns).decode(values)
    assert (done.rows.num_rows, [error.row for error in done.errors]) == (2, [1])


def test_a_samples_schema_travels_without_the_sample(tmp_path):
    sample = tmp_path / "sample"
    sample.write_bytes(b'{"id": 1, "name": "a"}\n')
    coder = JsonCoder(sample=str(sample))
    assert coder.schema().names == ["id", "name"]
    narrow = coder.narrowed(["name"])
    sample.unlink()
    for each in (coder, narrow):
        assert pickle.loads(pickle.dumps(each)).schema() == each.schema()
    with pytest.raises(OptionError, match="sample cannot be read"):
        JsonCoder(sample=str(sample)).schema()
