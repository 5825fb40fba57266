"""Records of Avro and Parquet files that cannot be read: each keeps its place and harms no other."""

import bz2
import io
import json
import lzma
import zlib

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.contracts import Context
from penstock.contracts.errors import ReadError
from penstock_localfile.source import LocalFiles

SYNC = b"0123456789abcdef"
ROW = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}],
}


def number(value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    return out.getvalue()


def datum(record, schema=ROW):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return out.getvalue()


def row(id):
    return datum({"id": id, "name": f"n{id}"})


def zstandard(data):
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as stream:
        stream.write(data)
    return out.getvalue().to_pybytes()


CODECS = {
    "null": lambda data: data,
    "deflate": lambda data: zlib.compress(data)[2:-4],
    "snappy": lambda data: (
        pa.Codec("snappy").compress(data, asbytes=True) + zlib.crc32(data).to_bytes(4, "big")
    ),
    "zstandard": zstandard,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


def block(records, codec="null"):
    data = CODECS[codec](b"".join(records))
    return number(len(records)) + number(len(data)) + data + SYNC


def container(*blocks, schema=ROW, codec="null"):
    meta = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec.encode()}
    pairs = b"".join(number(len(k)) + k + number(len(v)) + v for k, v in meta.items())
    return b"Obj\x01" + number(len(meta)) + pairs + b"\x00" + SYNC + b"".join(blocks)


@pytest.fixture
def read(tmp_path):
    def reading(data, form="avro", **options):
        (tmp_path / "a").write_bytes(data)
        source = LocalFiles(path=str(tmp_path / "a"), format=form, **options)
        planner = source.planner(Context())
        parts = planner.plan(planner.initial(), planner.final())
        planner.close()
        return [r for p in parts for rows in source.read(p) for r in rows.to_pylist()]

    return reading


def ids(rows):
    return [r["id"] for r in rows]


def positions(rows):
    return [r["_pen"]["stamp"]["position"] for r in rows]


def errors(rows):
    return {r["_pen"]["stamp"]["position"]: r["_pen"]["error"] for r in rows if r["_pen"]["error"]}


@pytest.mark.parametrize("codec", CODECS)
def test_blocks_of_every_codec_are_read(read, codec):
    blocks = [block([row(i) for i in range(at, at + 50)], codec) for at in range(0, 500, 50)]
    rows = read(container(*blocks, codec=codec))
    assert ids(rows) == positions(rows) == list(range(500))


def test_an_unknown_codec_is_named(read):
    with pytest.raises(ReadError, match="unknown way") as caught:
        read(container(codec="secret"))
    assert "secret in a" in str(caught.value)


def test_a_record_whose_text_is_no_text_harms_no_neighbour(read):
    bad = number(2) + number(1) + number(2) + b"\xff\xfe"
    rows = read(container(block([row(0), row(1), bad, row(3)]), block([row(4)])))
    assert ids(rows) == [0, 1, None, 3, 4]
    assert positions(rows) == [0, 1, 2, 3, 4]
    (error,) = errors(rows).values()
    assert error["original"] == bad
    assert "name" in error["message"]


def test_a_record_without_an_end_takes_only_the_rest_of_its_block(read):
    bad = number(2) + number(7)  # a branch that the union does not have
    rows = read(container(block([row(0), row(1), bad, row(3), row(4)]), block([row(5), row(6)])))
    assert ids(rows) == [0, 1, None, 5, 6]
    assert positions(rows) == [0, 1, 2, 5, 6]
    error = errors(rows)[2]
    assert error["original"] == bad + row(3) + row(4)
    assert "2 after it" in error["message"]


@pytest.mark.parametrize("codec", [c for c in CODECS if c != "null"])
def test_a_block_that_cannot_be_expanded_is_one_dead_letter(read, codec):
    good = [block([row(i), row(i + 1)], codec) for i in (0, 2, 4)]
    broken = b"this is not compressed"
    good[1] = number(2) + number(len(broken)) + broken + SYNC
    rows = read(container(*good, codec=codec))
    assert ids(rows) == [0, 1, None, 4, 5]
    assert positions(rows) == [0, 1, 2, 4, 5]
    assert errors(rows)[2]["original"] == broken
    assert "cannot be expanded" in errors(rows)[2]["message"]


@pytest.mark.parametrize("codec", [c for c in CODECS if c != "null"])
def test_a_block_grows_no_further_than_its_bound(read, codec):
    wide = datum({"id": 1, "name": "x" * (1 << 20)})
    rows = read(
        container(block([row(0)], codec), block([wide], codec), codec=codec),
        max_record_bytes=1 << 16,
    )
    assert ids(rows) == [0, None]
    assert "cannot be expanded" in errors(rows)[1]["message"]


def test_a_block_that_claims_too_many_records_is_one_dead_letter(read):
    nothing = {"type": "record", "name": "row", "fields": [{"name": "id", "type": "null"}]}
    hostile = number(10**12) + number(0) + SYNC
    rows = read(container(hostile, schema=nothing), schema="id BIGINT")
    assert ids(rows) == [None]
    assert "claims 1000000000000 records" in errors(rows)[0]["message"]


def test_an_array_of_nothing_without_end_is_one_bad_record(read):
    nulls = {"type": "array", "items": "null"}
    schema = {**ROW, "fields": [ROW["fields"][0], {"name": "nulls", "type": nulls}]}
    good = [datum({"id": i, "nulls": [None]}, schema) for i in range(3)]
    hostile = number(1) + number(1 << 62) + number(0)
    data = container(block([good[0], hostile, good[2]]), schema=schema)
    rows = read(data, schema="id BIGINT")
    assert positions(rows) == [0, 1, 2]
    assert ids(rows)[::2] == [0, 2]
    assert errors(rows)[1]["original"] == hostile


def test_a_header_that_claims_too_much_is_refused(read):
    with pytest.raises(ReadError, match="no Avro container file: its header claims"):
        read(b"Obj\x01" + number(1) + number(1 << 40) + b"x")


def test_records_left_over_in_a_block_are_told(read):
    data = row(0) + row(1) + b"left over"
    odd = number(2) + number(len(data)) + data + SYNC
    rows = read(container(odd, block([row(2)])))
    assert ids(rows) == [0, None, 2]
    assert positions(rows) == [0, 1, 2]
    assert errors(rows)[1]["original"] == row(1) + b"left over"


def test_bytes_without_a_record_in_a_block_are_told(read):
    odd = number(0) + number(4) + b"what" + SYNC
    rows = read(container(block([row(0)]), odd, block([row(1)])))
    assert ids(rows) == [0, None, 1]
    assert positions(rows) == [0, 1, 2]
    assert errors(rows)[1]["original"] == b"what"


@pytest.mark.parametrize("size", [1, 30, 200, 1000])
def test_a_file_with_bad_blocks_gives_the_same_records_in_ranges(read, size):
    left = row(4) + b"left over"
    data = container(
        block([row(0), row(1)]),
        number(2) + number(3) + b"\xff\xff\xff" + SYNC,
        number(1) + number(len(left)) + left + SYNC,
        number(0) + number(4) + b"what" + SYNC,
        block([]),
        block([row(6), row(7)]),
        block([row(8)]),
    )
    whole = read(data, schema=json.dumps(ROW))
    assert len(set(positions(whole))) == len(whole)
    assert ids(whole) == [0, 1, None, None, None, 6, 7, 8]
    assert read(data, schema=json.dumps(ROW), split_bytes=size) == whole


def test_a_value_that_does_not_fit_the_schema_is_one_dead_letter(read):
    written = {"type": "enum", "name": "kind", "symbols": ["a", "b", "c"]}
    known = {"type": "enum", "name": "kind", "symbols": ["a", "c"]}

    def record(kind):
        return {"type": "record", "name": "row", "fields": [{"name": "kind", "type": kind}]}

    datums = [datum({"kind": kind}, record(written)) for kind in "abcb"]
    rows = read(container(block(datums), schema=record(written)), schema=record(known))
    assert [r["kind"] for r in rows] == ["a", None, "c", None]
    assert set(errors(rows)) == {1, 3}


def test_a_schema_without_a_bottom_is_refused_before_it_is_walked(read):
    endless = {
        "type": "record",
        "name": "row",
        "fields": [{"name": "next", "type": ["null", "row"]}],
    }
    deep = b"\x02" * 100_000 + b"\x00"
    with pytest.raises(ReadError, match=r"cannot be used.*holds itself"):
        read(container(block([deep]), schema=endless), schema="next STRING")


def parquet(**columns):
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def test_a_parquet_value_that_does_not_fit_its_column_is_one_dead_letter(read):
    data = parquet(id=[1, 2, 3_000_000_000, 4], name=["a", "b", "c", "d"])
    rows = read(data, "parquet", schema="id INT, name STRING")
    assert [(r["id"], r["name"]) for r in rows] == [(1, "a"), (2, "b"), (None, None), (4, "d")]
    assert positions(rows) == [0, 1, 2, 3]
    error = errors(rows)[2]
    assert json.loads(error["original"]) == {"id": 3_000_000_000, "name": "c"}
    assert "3000000000" in error["message"]


def test_parquet_text_is_read_as_numbers_where_it_is_one(read):
    rows = read(parquet(id=["1", "x", "3"]), "parquet", schema="id BIGINT")
    assert ids(rows) == [1, None, 3]
    assert set(errors(rows)) == {1}


def test_a_missing_parquet_column_is_named(read):
    with pytest.raises(ReadError, match="column name is missing") as caught:
        read(parquet(id=[1]), "parquet", schema="id BIGINT, name STRING")
    assert "id in a" in str(caught.value)
