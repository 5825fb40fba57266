import bz2
import gzip
import io
import json
import zipfile

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.contracts import Context, Limit
from penstock.contracts.errors import OptionError, ReadError, SchemaError
from penstock_localfile.source import LocalFiles

DDL = "id BIGINT, name STRING, amount DOUBLE"
RECORDS = [{"id": i, "name": f"näme {i}", "amount": i / 4} for i in range(1000)]


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "in"
    made.mkdir()
    return made


def read(source):
    """All rows, and the parts they came in."""
    planner = source.planner(Context())
    try:
        parts = planner.plan(planner.initial(), planner.final())
    finally:
        planner.close()
    schema = source.schema()
    rows = []
    for part in parts:
        for batch in source.read(part):
            assert batch.schema.equals(schema)
            rows += batch.to_pylist()
    return rows, parts


def plain(rows):
    return [{k: v for k, v in row.items() if k != "_pen"} for row in rows]


def stamps(rows):
    return [(row["_pen"]["stamp"]["part"], row["_pen"]["stamp"]["position"]) for row in rows]


def as_csv(records, names=("id", "name", "amount")):
    lines = [",".join(names)] + [",".join(str(r[n]) for n in names) for r in records]
    return "\n".join(lines).encode()


def as_json(records):
    return "".join(json.dumps(r) + "\n" for r in records).encode()


def as_parquet(records, rows=None):
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(records), out, row_group_size=rows)
    return out.getvalue()


AVRO = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "amount", "type": "double"},
    ],
}


def as_avro(records, codec="deflate", block=2000):
    out = io.BytesIO()
    fastavro.writer(out, AVRO, records, codec=codec, sync_interval=block)
    return out.getvalue()


WRITERS = {"csv": as_csv, "json": as_json, "parquet": as_parquet, "avro": as_avro}


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("given", [True, False], ids=["schema given", "schema learned"])
def test_typed_files_become_columns_with_stamps(folder, form, given):
    (folder / "a").write_bytes(WRITERS[form](RECORDS))
    schema = {"schema": AVRO if form == "avro" else DDL} if given else {}
    rows, _ = read(LocalFiles(path=str(folder), format=form, **schema))
    assert plain(rows) == RECORDS
    positions = [position for _, position in stamps(rows)]
    assert positions == sorted(set(positions))
    assert {part for part, _ in stamps(rows)} == {"a"}
    assert all(row["_pen"]["error"] is None for row in rows)


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "avro"])
def test_large_files_are_read_in_ranges_with_the_same_stamps(folder, form):
    small = {
        "parquet": lambda: as_parquet(RECORDS, 50),
        "avro": lambda: as_avro(RECORDS, "null", 500),
    }
    data = small[form]() if form in small else WRITERS[form](RECORDS)
    (folder / "a").write_bytes(data)
    schema = AVRO if form == "avro" else DDL
    whole, one = read(LocalFiles(path=str(folder), format=form, schema=schema, parts=1))
    cut, many = read(LocalFiles(path=str(folder), format=form, schema=schema, split_bytes=3000))
    assert len(one) == 1
    assert len(many) > 3
    assert cut == whole


@pytest.mark.parametrize("codec", ["gzip", "zstd", "bzip2", "zip"])
@pytest.mark.parametrize("form", ["lines", "text", "whole", "xml", "csv", "json", "avro"])
def test_compressed_files_are_read_by_their_suffix(folder, form, codec):
    given = {
        "lines": (b"one\ntwo\n", [b"one", b"two"]),
        "text": (b"one\ntwo\n", ["one", "two"]),
        "whole": (b"one\ntwo\n", [b"one\ntwo\n"]),
        "xml": (b"<all><a>1</a><a>2</a></all>", [b"<a>1</a>", b"<a>2</a>"]),
    }
    data, values = given.get(form) or (WRITERS[form](RECORDS), None)
    if codec == "gzip":
        (folder / "a.gz").write_bytes(gzip.compress(data[:9]) + gzip.compress(data[9:]))
    elif codec == "bzip2":
        (folder / "a.bz2").write_bytes(bz2.compress(data))
    elif codec == "zstd":
        (folder / "a.zst").write_bytes(pa.Codec("zstd").compress(data, asbytes=True))
    else:
        with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("x/one", data)
            archive.writestr("two.skip", b"broken")
    rows, _ = read(LocalFiles(path=str(folder), format=form, members="**/one"))
    if values is not None:
        assert [row["value"] for row in rows] == values
    else:
        assert plain(rows) == RECORDS
    meta = rows[0].get("_pen") or rows[0]
    part = meta["stamp"]["part"]
    if codec == "zip":
        assert part == "a.zip!x/one"


def test_text_has_a_row_for_each_line_however_it_ends(folder):
    data = "\ufeffone\r\ntwo\rGrüße\n\nlast".encode()
    (folder / "a").write_bytes(data)
    rows, _ = read(LocalFiles(path=str(folder), format="text"))
    assert [row["value"] for row in rows] == ["one", "two", "Grüße", "", "last"]
    assert [position for _, position in stamps(rows)] == [3, 8, 12, 20, 21]
    cut, parts = read(LocalFiles(path=str(folder), format="text", split_bytes=2))
    assert len(parts) > 10
    assert cut == rows


@pytest.mark.parametrize("data", [b"", b"\n", b"one", b"one\r\ntwo", b"\xef\xbb\xbfone"])
@pytest.mark.parametrize("cut", [1, 2, 3, 4, 100])
def test_a_byte_order_mark_is_no_part_of_a_text(folder, data, cut):
    (folder / "a").write_bytes(b"\xef\xbb\xbf" + data)
    rows, _ = read(LocalFiles(path=str(folder), format="text", split_bytes=cut))
    assert [row["value"].encode() for row in rows] == data.splitlines()
    assert [position for _, position in stamps(rows)][:1] == [3] * bool(data)


def test_a_line_that_is_no_text_is_one_bad_record_or_is_trusted(folder):
    (folder / "a").write_bytes(b"one\ngr\xfc\xdfe\ntwo\n")
    rows, _ = read(LocalFiles(path=str(folder), format="text"))
    assert [row["value"] for row in rows] == ["one", None, "two"]
    error = rows[1]["_pen"]["error"]
    assert (error["message"], error["original"]) == (
        "the bytes are not valid utf-8",
        b"gr\xfc\xdfe",
    )
    source = LocalFiles(path=str(folder), format="text", utf8="trust")
    planner = source.planner(Context())
    (part,) = planner.plan(planner.initial(), planner.final())
    planner.close()
    (trusted,) = source.read(part)
    assert trusted.column("value").cast(pa.binary()).to_pylist() == [b"one", b"gr\xfc\xdfe", b"two"]


def test_a_bomb_ends_in_an_error_before_it_fills_memory(folder):
    (folder / "a.gz").write_bytes(gzip.compress(b"\0" * (80 << 20)))
    with pytest.raises(ReadError, match="grows beyond") as caught:
        read(LocalFiles(path=str(folder), format="whole", max_record_bytes=1 << 30))
    assert "max_expansion" in str(caught.value)


def test_members_of_a_zip_share_one_bound(folder):
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(5):
            archive.writestr(f"{i}", b"\0" * (20 << 20))
    with pytest.raises(ReadError, match="grows beyond"):
        read(LocalFiles(path=str(folder), format="whole"))


def test_hostile_member_names_only_appear_in_stamps(folder, tmp_path):
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("../../evil", b"x\n")
        archive.writestr("/etc/evil", b"y\n")
    rows, _ = read(LocalFiles(path=str(folder)))
    assert [row["stamp"]["part"] for row in rows] == ["a.zip!../../evil", "a.zip!/etc/evil"]
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize("name", ["a.gz", "a.zip", "a.bz2", "a.zst"])
def test_a_broken_compressed_file_is_named(folder, name):
    (folder / name).write_bytes(b"this is not compressed at all")
    with pytest.raises(ReadError) as caught:
        read(LocalFiles(path=str(folder)))
    assert name in str(caught.value)


def test_a_cut_off_compressed_file_is_an_error_not_a_short_read(folder):
    (folder / "a.gz").write_bytes(gzip.compress(b"line\n" * 100_000)[:-50])
    with pytest.raises(ReadError):
        read(LocalFiles(path=str(folder)))


def test_csv_columns_go_by_the_header_of_each_file(folder):
    (folder / "a").write_bytes(as_csv(RECORDS[:3]))
    (folder / "b").write_bytes(b"\xef\xbb\xbf" + as_csv(RECORDS[3:5], ("amount", "name", "id")))
    more = [{**r, "extra": 1} for r in RECORDS[5:7]]
    (folder / "c").write_bytes(as_csv(more, ("name", "extra", "id", "amount")))
    rows, _ = read(LocalFiles(path=str(folder), format="csv", schema=DDL, order="name"))
    assert plain(rows) == RECORDS[:7]


def test_csv_without_a_column_is_an_error_that_names_it(folder):
    (folder / "a").write_bytes(b"id,name\n1,x\n")
    with pytest.raises(ReadError, match="lacks the column amount"):
        read(LocalFiles(path=str(folder), format="csv", schema=DDL))


def test_csv_without_header_goes_by_place(folder):
    (folder / "a").write_bytes(b"1;x;2.5\n\n2;;0\n")
    source = LocalFiles(path=str(folder), format="csv", schema=DDL, header=False, delimiter=";")
    assert plain(read(source)[0]) == [
        {"id": 1, "name": "x", "amount": 2.5},
        {"id": 2, "name": None, "amount": 0.0},
    ]


def test_quoted_line_ends_are_read_as_a_document(folder):
    (folder / "a").write_bytes(b'id,name,amount\n1,"two\nlines",0.5\n2,b,1\n')
    source = LocalFiles(path=str(folder), format="csv", schema=DDL, layout="document")
    rows, _ = read(source)
    assert [row["name"] for row in rows] == ["two\nlines", "b"]
    assert [position for _, position in stamps(rows)] == [0, 1]


def test_a_json_array_is_read_as_a_document(folder):
    (folder / "a").write_bytes(json.dumps(RECORDS[:3]).encode())
    source = LocalFiles(path=str(folder), format="json", schema=DDL, layout="document")
    assert plain(read(source)[0]) == RECORDS[:3]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_bad_record_keeps_its_place_and_harms_no_other(folder, form):
    lines = WRITERS[form](RECORDS[:50]).split(b"\n")
    lines[20] = b"no,record,at,all" if form == "csv" else b'{"id": "x"'
    (folder / "a").write_bytes(b"\n".join(lines))
    rows, _ = read(LocalFiles(path=str(folder), format=form, schema=DDL))
    bad = [row for row in rows if row["_pen"]["error"]]
    assert [row["_pen"]["error"]["original"] for row in bad] == [lines[20]]
    assert bad[0]["_pen"]["error"]["message"]
    assert (bad[0]["id"], bad[0]["name"]) == (None, None)
    assert len(rows) == 50
    positions = [position for _, position in stamps(rows)]
    assert positions == sorted(positions)


def test_a_learned_schema_is_kept_for_later_batches(folder, tmp_path):
    ctx = Context(state=str(tmp_path / "state"))
    source = LocalFiles(path=str(folder), format="json")
    (folder / "a").write_bytes(b'{"id": 1}\n')
    planner = source.planner(ctx)
    at = planner.latest(planner.initial(), Limit())
    first = planner.plan(planner.initial(), at)
    planner.close()
    (folder / "a").unlink()
    (folder / "b").write_bytes(b'{"id": 2, "late": true}\n')
    planner = source.planner(ctx)
    end = planner.latest(at, Limit())
    parts = planner.plan(at, end)
    planner.close()
    assert parts[0].learned == first[0].learned
    assert plain([r for b in source.read(parts[0]) for r in b.to_pylist()]) == [{"id": 2}]


def test_no_schema_and_no_file_says_what_to_give(folder):
    with pytest.raises(SchemaError, match="no file to learn it from") as caught:
        LocalFiles(path=str(folder), format="json").schema()
    assert "schema=" in str(caught.value)


def test_bytes_take_no_schema(folder):
    with pytest.raises(OptionError, match="takes no schema"):
        LocalFiles(path=str(folder), schema=DDL)


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_a_broken_file_is_named(folder, form):
    (folder / "good").write_bytes(WRITERS[form](RECORDS))
    (folder / "broken").write_bytes(WRITERS[form](RECORDS)[:-40])
    source = LocalFiles(path=str(folder / "broken"), format=form, schema=AVRO)
    with pytest.raises(ReadError) as caught:
        read(source)
    assert "broken" in str(caught.value)


XML = b"""<?xml version="1.0"?>
<orders xmlns:x="http://example.org/x/y">
  <order id="1"><total>5</total></order>
  <group><order id="2"><total>50</total></order></group>
  <x:order id="3"/>
  <order id="4"><order id="5"/></order>
</orders>
"""


@pytest.mark.parametrize(
    ("row", "ids"),
    [
        ("//order", ["1", "2", "5", "4"]),
        ("/orders/order", ["1", "4"]),
        ("/orders/*/order", ["2", "5"]),
        ("//order[total > 10]", ["2"]),
        ("//order[@id > 1][total]", ["2"]),
        ("//x:order", ["3"]),
        ("/*/*[@id]", ["1", "3", "4"]),
        ("//order[total[1] = '50'] [@id = '2']", ["2"]),
        ("//order[@id = ']' or order[last()]]", ["4"]),
        ("//order[../@id = '4']", ["5"]),
    ],
)
def test_xml_rows_are_the_elements_a_path_selects(folder, row, ids):
    from lxml import etree

    (folder / "a.xml").write_bytes(XML)
    source = LocalFiles(
        path=str(folder), format="xml", row=row, namespaces={"x": "http://example.org/x/y"}
    )
    rows, _ = read(source)
    assert [etree.fromstring(r["value"]).get("id") for r in rows] == ids
    assert [r["stamp"]["position"] for r in rows] == list(range(len(ids)))


def test_a_large_xml_file_is_read_in_little_memory(folder):
    with (folder / "big.xml").open("wb") as file:
        file.write(b"<rows>")
        for i in range(100_000):
            file.write(b'<row id="%d"><text>%s</text></row>\n' % (i, b"x" * 200))
        file.write(b"</rows>")
    source = LocalFiles(path=str(folder), format="xml", row="/rows/row", max_record_bytes=1 << 20)
    planner = source.planner(Context())
    (part,) = planner.plan(planner.initial(), planner.final())
    planner.close()
    count = 0
    for batch in source.read(part):
        assert batch.nbytes < 16 << 20
        count += batch.num_rows
    assert count == 100_000


def test_xml_entities_are_refused(folder, tmp_path):
    canary = tmp_path / "canary"
    canary.write_text("SECRET-CANARY")
    (folder / "a.xml").write_text(
        f'<!DOCTYPE a [<!ENTITY c SYSTEM "file:{canary}">]><a><b>&c;</b></a>'
    )
    with pytest.raises(ReadError, match="entities") as caught:
        read(LocalFiles(path=str(folder), format="xml"))
    assert "CANARY" not in str(caught.value)


def test_xml_bombs_end_quickly(folder):
    entities = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))
    (folder / "a.xml").write_text(f'<!DOCTYPE a [<!ENTITY l0 "lol">{entities}]><a><b>&l9;</b></a>')
    with pytest.raises(ReadError):
        read(LocalFiles(path=str(folder), format="xml"))


def test_a_path_that_cannot_stream_is_refused():
    with pytest.raises(OptionError, match="while a file streams"):
        LocalFiles(path="/x", format="xml", row="//a/ancestor::b")


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ("//order[@id='1']/item[@k='2']", "while a file streams"),
        ("//order[@id='1'", "while a file streams"),
        ("//order[1]", "counts elements"),
        ("//order[@id][last()]", "counts elements"),
        ("//order[position() < 3]", "counts elements"),
        ("//order[count(item)]", "counts elements"),
        ("//order[@id >]", "no XPath"),
        ("//order[y:item]", "no XPath"),
        ("//order[unknown()]", "no XPath"),
        ("//order[preceding-sibling::order]", "outside of its element"),
        ("//order[../total > 3]", "outside of its element"),
        ("//order[@id and //total > 3]", "outside of its element"),
    ],
)
def test_a_predicate_that_would_give_other_rows_is_refused(row, error):
    with pytest.raises(OptionError, match=error):
        LocalFiles(path="/x", format="xml", row=row)


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "avro"])
@pytest.mark.parametrize("after", ["delete", "archive", "rename"])
def test_a_schema_is_not_learned_from_a_file_that_will_go(form, after):
    with pytest.raises(OptionError, match=f"after={after} takes away the file"):
        LocalFiles(path="/x", format=form, after=after)
    LocalFiles(path="/x", format=form, after=after, schema="id BIGINT")
    LocalFiles(path="/x", format=form)
