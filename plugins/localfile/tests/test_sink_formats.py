import csv
import io
import json
import os
import re

import pyarrow as pa
import pytest
from attrs import evolve

from penstock.contracts import ENVELOPE, Batch, Context
from penstock.contracts.envelope import PEN_FIELD, pen, undecoded
from penstock.contracts.errors import OptionError, ReadError, SchemaError
from penstock_localfile.sink import LocalFileSink
from penstock_localfile.source import LocalFiles

ROWS = [
    {"id": i, "name": None if i % 7 == 0 else f'n"ä,{i}', "country": "de" if i % 2 else "fr"}
    for i in range(40)
]
TABLE = pa.RecordBatch.from_pylist(
    ROWS, schema=pa.schema([("id", pa.int64()), ("name", pa.string()), ("country", pa.string())])
)
BATCH = Batch(Context(query="q", node="n"), 0)


def write(sink, *tables, batch=BATCH):
    receipts = []
    for partition, table in enumerate(tables):
        schema = sink.accepts(table.schema)
        writer = sink.open(batch, partition, 0, schema)
        for at in range(0, table.num_rows, 10):
            writer.write(table.select(schema.names).slice(at, 10))
        receipts.append(evolve(writer.close(), partition=partition))
    sink.finish(batch, receipts)
    return receipts


def files(folder):
    found = (p for p in folder.rglob("*") if p.is_file() and ".penstock" not in p.parts)
    return sorted(str(p.relative_to(folder)) for p in found)


def read_back(folder, form, **options):
    source = LocalFiles(path=str(folder), format=form, recursive=True, **options)
    planner = source.planner(Context())
    parts = planner.plan(planner.initial(), planner.final())
    planner.close()
    rows = [r for part in parts for b in source.read(part) for r in b.to_pylist()]
    return sorted(
        ({k: v for k, v in r.items() if k != "_pen"} for r in rows), key=lambda r: r["id"]
    )


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "avro"])
@pytest.mark.parametrize("packed", ["none", "gzip", "zstd", "bzip2"])
def test_what_is_written_can_be_read_back(tmp_path, form, packed):
    if (form, packed) in (("avro", "zstd"), ("avro", "bzip2"), ("parquet", "bzip2")):
        with pytest.raises(OptionError, match="not compressed this way"):
            LocalFileSink(path=str(tmp_path), format=form, compression=packed)
        return
    sink = LocalFileSink(path=str(tmp_path), format=form, compression=packed)
    receipts = write(sink, TABLE, TABLE.slice(0, 0))
    assert [r.rows for r in receipts] == [40, 0]
    (name,) = files(tmp_path)
    ending = {"gzip": ".gz", "zstd": ".zst", "bzip2": ".bz2", "none": ""}[packed]
    assert name.endswith(form if form in ("parquet", "avro") else form + ending)
    assert read_back(tmp_path, form) == ROWS


def test_csv_follows_its_options(tmp_path):
    sink = LocalFileSink(path=str(tmp_path), format="csv", delimiter=";", null="NULL")
    write(sink, TABLE)
    (name,) = files(tmp_path)
    text = (tmp_path / name).read_text()
    rows = list(csv.reader(io.StringIO(text), delimiter=";"))
    assert rows[0] == ["id", "name", "country"]
    assert rows[1] == ["0", "NULL", "fr"]
    assert rows[2] == ["1", 'n"ä,1', "de"]


def test_partition_columns_name_folders(tmp_path):
    sink = LocalFileSink(path=str(tmp_path), format="json", partition_by=["country"])
    write(sink, TABLE)
    assert [os.path.dirname(f) for f in files(tmp_path)] == ["country=de", "country=fr"]
    for name in files(tmp_path):
        for line in (tmp_path / name).read_text().splitlines():
            record = json.loads(line)
            assert "country" not in record
            assert ("country=de" in name) == (record["id"] % 2 == 1)


def test_hostile_partition_values_stay_below_the_root(tmp_path):
    root = tmp_path / "root"
    values = ["../../evil", "/etc", "a\nb", "", None, "..", "x=y", "ü"]
    table = pa.RecordBatch.from_pydict({"id": list(range(8)), "p": pa.array(values, pa.string())})
    write(LocalFileSink(path=str(root), format="json", partition_by=["p"]), table)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["root"]
    assert all(len(f.split("/")) == 2 for f in files(root))
    assert sum(len((root / f).read_text().splitlines()) for f in files(root)) == 8


def test_values_that_hold_any_character_name_folders_of_their_own(tmp_path):
    given = {"id": [0, 1, 2, 3], "p": ["a\1", "a", "\0", None], "q": ["b", "\1b", "", "\0"]}
    table = pa.RecordBatch.from_pydict(given)
    write(LocalFileSink(path=str(tmp_path), format="json", partition_by=["p", "q"]), table)
    null = "__HIVE_DEFAULT_PARTITION__"
    assert {
        os.path.dirname(f): read_back(tmp_path / os.path.dirname(f), "json")
        for f in files(tmp_path)
    } == {
        "p=a%01/q=b": [{"id": 0}],
        "p=a/q=%01b": [{"id": 1}],
        f"p=%00/q={null}": [{"id": 2}],
        f"p={null}/q=%00": [{"id": 3}],
    }


def test_buckets_are_the_same_in_every_batch(tmp_path):
    sink = LocalFileSink(path=str(tmp_path), format="json", bucket_by=["id"], buckets=4)
    write(sink, TABLE)
    write(sink, TABLE, batch=evolve(BATCH, number=1))
    where = {}
    for name in files(tmp_path):
        assert re.match(r"bucket=0000[0-3]/", name)
        for line in (tmp_path / name).read_text().splitlines():
            where.setdefault(json.loads(line)["id"], set()).add(os.path.dirname(name))
    assert all(len(folders) == 1 for folders in where.values())
    assert len({f for folders in where.values() for f in folders}) == 4


def test_a_file_that_is_full_gives_way_to_the_next(tmp_path):
    sink = LocalFileSink(path=str(tmp_path), format="json", max_file_bytes=300)
    write(sink, TABLE)
    assert len(files(tmp_path)) > 2
    assert [r["id"] for r in read_back(tmp_path, "json")] == list(range(40))


def test_many_folders_do_not_keep_many_files_open(tmp_path):
    table = pa.RecordBatch.from_pydict({"id": list(range(250)), "p": [f"{i}" for i in range(250)]})
    sink = LocalFileSink(path=str(tmp_path), format="json", partition_by=["p"])
    write(sink, table, table)
    assert len(files(tmp_path)) == 500


def test_names_follow_a_template(tmp_path):
    sink = LocalFileSink(
        path=str(tmp_path), format="csv", file_name="day/{node}-{batch}-{partition:02d}"
    )
    write(sink, TABLE, batch=evolve(BATCH, number=7))
    assert files(tmp_path) == ["day/n-7-00.csv"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"file_name": "{batch}"}, "must hold {partition}"),
        ({"file_name": "x-{batch}-{partition}", "partition_by": "a"}, "{roll}"),
        ({"file_name": "{batch}-{partition}-{what}"}, "must use only"),
        ({"file_name": "{batch.__class__}{partition}"}, "must use only"),
        ({"file_name": "{batch"}, "cannot be read"),
        ({"file_name": "/tmp/{batch}-{partition}"}, "out of the folder"),
        ({"file_name": "a/../../{path}", "format": "files"}, "out of the folder"),
        ({"file_name": "{folder}/{name}", "format": "files"}, "must not have /"),
        ({"bucket_by": ["a"]}, "belong together"),
        ({"convert": "a:b"}, "only with format=files"),
        ({"format": "files", "partition_by": ["a"]}, "as it is"),
    ],
)
def test_options_that_cannot_work_are_refused(options, words):
    with pytest.raises(OptionError) as caught:
        LocalFileSink(path="/x", **options)
    assert words in str(caught.value)


def test_a_missing_partition_column_is_named():
    with pytest.raises(SchemaError, match="no column nowhere"):
        LocalFileSink(path="/x", format="json", partition_by=["nowhere"]).accepts(TABLE.schema)


def test_csv_refuses_nested_columns():
    nested = pa.schema([("a", pa.list_(pa.int64()))])
    with pytest.raises(SchemaError, match="nested"):
        LocalFileSink(path="/x", format="csv").accepts(nested)


def test_lines_can_be_partitioned_too(tmp_path):
    table = pa.RecordBatch.from_pydict({"value": [b"a", b"b"], "day": ["1", "2"]})
    write(LocalFileSink(path=str(tmp_path), partition_by=["day"]), table)
    assert [f.split("/")[0] for f in files(tmp_path)] == ["day=1", "day=2"]


def shout(data):
    """What the conversion tests convert with."""
    if b"poison" in data:
        raise ValueError("this file is bad")
    return (line + b"\n" for line in data.upper().splitlines() if line)


CONVERT = "file_for_a_file_functions:shout"


@pytest.fixture
def functions(monkeypatch):
    import sys
    import types

    module = types.ModuleType("file_for_a_file_functions")
    module.shout = shout
    monkeypatch.setitem(sys.modules, module.__name__, module)


def convert(source_folder, sink, batch=BATCH, **options):
    """Every file of a folder through the sink, as two tasks."""
    source = LocalFiles(path=str(source_folder), format="whole", recursive=True, parts=2, **options)
    planner = source.planner(Context())
    parts = planner.plan(planner.initial(), planner.final())
    planner.close()
    schema = sink.accepts(ENVELOPE)
    receipts = []
    for partition, part in enumerate(parts):
        writer = sink.open(batch, partition, 0, schema)
        for rows in source.read(part):
            writer.write(rows.select(schema.names))
        receipts.append(evolve(writer.close(), partition=partition))
    sink.finish(batch, receipts)
    return receipts


@pytest.fixture
def inputs(tmp_path):
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_bytes(b"one\ntwo\n")
    (folder / "deep" / "b.txt").write_bytes(b"three\n")
    (folder / "empty.txt").write_bytes(b"")
    (folder / "filtered.txt").write_bytes(b"\n\n")
    (folder / "bad.txt").write_bytes(b"poison\n")
    os.utime(folder / "a.txt", (1000, 1000))
    return folder


def test_every_file_becomes_one_file(tmp_path, inputs, functions):
    out = tmp_path / "out"
    sink = LocalFileSink(
        path=str(out),
        format="files",
        convert=CONVERT,
        file_name="{folder}{stem}.up{ext}",
        keep_times=True,
    )
    convert(inputs, sink)
    assert {f: (out / f).read_bytes() for f in files(out) if not f.startswith("errors")} == {
        "a.up.txt": b"ONE\nTWO\n",
        "deep/b.up.txt": b"THREE\n",
        "empty.up.txt": b"",
        "filtered.up.txt": b"",
    }
    assert (out / "a.up.txt").stat().st_mtime == 1000


def test_a_bad_file_goes_to_the_error_folder_with_a_report(tmp_path, inputs, functions):
    out = tmp_path / "out"
    convert(inputs, LocalFileSink(path=str(out), format="files", convert=CONVERT))
    assert (out / "errors" / "bad.txt").read_bytes() == b"poison\n"
    report = json.loads((out / "errors" / "bad.txt.error.json").read_text())
    assert (report["file"], report["kind"]) == ("bad.txt", "ValueError")
    assert report["message"] == "this file is bad"
    assert not (out / "bad.txt").exists()
    assert len(files(out)) == 6


def test_a_name_that_would_leave_the_root_is_rejected(tmp_path):
    sink = LocalFileSink(path=str(tmp_path / "out"), format="files")
    schema = sink.accepts(ENVELOPE)
    keys = [b"../evil", b"/etc/evil", b"fine", b"a\0b", None]
    rows = pa.RecordBatch.from_pylist([{"key": k, "value": b"x"} for k in keys], schema=schema)
    writer = sink.open(BATCH, 0, 0, schema)
    writer.write(rows)
    receipt = writer.close()
    sink.finish(BATCH, [receipt])
    assert receipt.rows == 1
    assert len(receipt.rejected) == 4
    assert files(tmp_path) == ["out/fine"]


def test_a_function_that_is_not_there_is_an_option_error(tmp_path):
    sink = LocalFileSink(path=str(tmp_path), format="files", convert="nowhere:nothing")
    schema = sink.accepts(ENVELOPE)
    rows = pa.RecordBatch.from_pylist([{"key": b"a", "value": b"x"}], schema=schema)
    with pytest.raises(OptionError, match="cannot be loaded"):
        sink.open(BATCH, 0, 0, schema).write(rows)


def test_file_for_a_file_needs_a_key(tmp_path):
    with pytest.raises(SchemaError, match="needs a key"):
        LocalFileSink(path=str(tmp_path), format="files").accepts(
            pa.schema([("value", pa.binary())])
        )


def test_file_for_a_file_takes_the_rows_of_a_pipeline(tmp_path):
    sink = LocalFileSink(path=str(tmp_path), format="files")
    rows = pa.RecordBatch.from_pylist([{"key": b"a/b", "value": b"x"}], schema=ENVELOPE)
    inside = undecoded(rows)
    schema = sink.accepts(inside.schema)
    writer = sink.open(BATCH, 0, 0, schema)
    writer.write(inside.select(schema.names))
    sink.finish(BATCH, [writer.close()])
    assert (tmp_path / "a" / "b").read_bytes() == b"x"


def test_a_new_version_of_an_input_replaces_its_output(tmp_path):
    sink = LocalFileSink(path=str(tmp_path), format="files")
    for number, value in enumerate((b"first", b"second")):
        batch = evolve(BATCH, number=number)
        rows = pa.RecordBatch.from_pylist([{"key": b"a", "value": value}], schema=ENVELOPE)
        schema = sink.accepts(ENVELOPE)
        writer = sink.open(batch, 0, 0, schema)
        writer.write(rows.select(schema.names))
        sink.finish(batch, [writer.close()])
    assert (tmp_path / "a").read_bytes() == b"second"


def test_permission_bits_are_kept_if_asked(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for name, mode in (("a", 0o640), ("b", 0o4755)):
        (folder / name).write_bytes(b"x")
        (folder / name).chmod(mode)
    for kept, expected in ((True, [0o640, 0o755]), (False, [0o644, 0o644])):
        out = tmp_path / f"out-{kept}"
        sink = LocalFileSink(path=str(out), format="files", keep_metadata=kept)
        before = os.umask(0o022)
        try:
            convert(folder, sink, metadata=True)
        finally:
            os.umask(before)
        assert [(out / name).stat().st_mode & 0o7777 for name in "ab"] == expected


@pytest.mark.parametrize("name", ["bad.txt.gz", "bad.zip", "bad.zst", "bad.bz2"])
def test_a_file_that_cannot_be_expanded_harms_no_other(tmp_path, name):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"good")
    (folder / name).write_bytes(b"this is not compressed")
    (folder / "z.txt").write_bytes(b"good, too")
    sink = LocalFileSink(path=str(out), format="files", file_name="{stem}.out")
    with pytest.raises(ReadError):
        convert(folder, sink)
    convert(folder, sink, broken="pass")
    assert (out / "a.out").read_bytes() == b"good"
    assert (out / "z.out").read_bytes() == b"good, too"
    assert (out / "errors" / name).read_bytes() == b"this is not compressed"
    report = json.loads((out / "errors" / f"{name}.error.json").read_text())
    assert report["kind"] == "BadFile"
    assert "zip" in report["message"] or "compressed file" in report["message"]


def test_without_an_error_folder_a_bad_file_stops_the_batch(tmp_path, inputs, functions):
    sink = LocalFileSink(path=str(tmp_path / "out"), format="files", convert=CONVERT, errors="")
    with pytest.raises(ValueError, match="this file is bad"):
        convert(inputs, sink)


@pytest.mark.parametrize("packed", ["none", "gzip"])
def test_avro_files_are_what_others_read(tmp_path, packed):
    import fastavro

    rows = [{"id": i, "name": f"näme {i}"} for i in range(10_000)]
    table = pa.RecordBatch.from_pylist(rows)
    write(LocalFileSink(path=str(tmp_path), format="avro", compression=packed), table)
    (path,) = tmp_path.glob("*.avro")
    with path.open("rb") as file:
        assert list(fastavro.reader(file)) == rows


def test_a_refused_row_comes_back_whole_with_its_folder_and_what_it_carries(tmp_path):
    values = [b"one", b"two\nlines", b"three"]
    schema = pa.schema([("value", pa.binary()), ("day", pa.string()), PEN_FIELD])
    meta = pen(3, id=pa.array(["a", "b", "c"]), original=pa.array(values, pa.binary()))
    rows = pa.RecordBatch.from_arrays([values, ["1", "2", "2"], meta], schema=schema)
    sink = LocalFileSink(path=str(tmp_path), partition_by=["day"])
    assert sink.accepts(schema).names == ["value", "day", "_pen"]
    [receipt] = write(sink, rows)
    assert receipt.rows == 2
    [rejected] = receipt.rejected
    assert rejected.rows.equals(rows.slice(1, 1))
    assert rejected.errors == ["the value holds a newline"]
    assert [p.read_bytes() for p in sorted(tmp_path.glob("day=*/*"))] == [b"one\n", b"three\n"]


def test_only_a_format_that_holds_every_row_says_that_it_refuses_none():
    assert not LocalFileSink(path="/x", format="parquet").refuses()
    assert LocalFileSink(path="/x", format="parquet", partition_by=["day"]).refuses()
    assert LocalFileSink(path="/x", format="json").refuses()
