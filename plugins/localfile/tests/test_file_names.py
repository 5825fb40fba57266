"""Names that a target cannot hold, or that two inputs would share."""

import json
import sys
import types

import pyarrow as pa
import pytest
from attrs import evolve

from penstock.contracts import Batch, Context, Limit
from penstock.contracts.envelope import ENVELOPE
from penstock.contracts.errors import ReadError, WriteError
from penstock_localfile.engine.names import suffixed
from penstock_localfile.sink import LocalFileSink
from penstock_localfile.source import LocalFiles

BATCH = Batch(Context(query="q", node="n"), 0)


def wrote(sink, *rows, number=0):
    """One batch of one task, in file for a file; what was refused of it."""
    batch = evolve(BATCH, number=number)
    schema = sink.accepts(ENVELOPE)
    given = [{"key": k, "value": v} for k, v in rows]
    writer = sink.open(batch, 0, 0, schema)
    writer.write(pa.RecordBatch.from_pylist(given, schema=schema))
    receipt = writer.close()
    sink.finish(batch, [receipt])
    return [r.rows["key"][0].as_py() for r in receipt.rejected], [
        e for r in receipt.rejected for e in r.errors
    ]


def files(folder):
    found = (p for p in folder.rglob("*") if p.is_file() and ".penstock" not in p.parts)
    return {str(p.relative_to(folder)): p.read_bytes() for p in found}


@pytest.fixture
def out(tmp_path):
    made = tmp_path / "out"
    made.mkdir()
    return made


@pytest.fixture
def sink(out):
    return LocalFileSink(path=str(out), format="files")


def test_nothing_is_written_through_a_link_out_of_the_root(sink, out, tmp_path):
    away = tmp_path / "away"
    away.mkdir()
    (out / "link").symlink_to(away)
    (out / "lost").symlink_to(tmp_path / "nowhere")
    keys, errors = wrote(sink, (b"link/x", b"1"), (b"lost/x", b"2"), (b"fine", b"3"))
    assert keys == [b"link/x", b"lost/x"]
    assert all("leads out of the folder" in e for e in errors)
    assert files(out) == {"fine": b"3"}
    assert list(away.iterdir()) == []


def test_temporary_files_do_not_leave_the_root_either(sink, out, tmp_path):
    (tmp_path / "away").mkdir()
    (out / ".penstock").symlink_to(tmp_path / "away")
    with pytest.raises(WriteError, match="leads out of the folder"):
        sink.open(BATCH, 0, 0, sink.accepts(ENVELOPE)).write(
            pa.RecordBatch.from_pylist([{"key": b"a", "value": b"x"}], schema=ENVELOPE)
        )
    assert list((tmp_path / "away").iterdir()) == []


def test_a_link_within_the_root_is_followed(sink, out):
    (out / "real").mkdir()
    (out / "link").symlink_to(out / "real")
    assert wrote(sink, (b"link/x", b"1")) == ([], [])
    assert (out / "real" / "x").read_bytes() == b"1"


def test_a_name_that_is_in_the_way_refuses_its_row_and_no_other(sink, out):
    (out / "folder").mkdir()
    (out / "file").write_bytes(b"")
    keys, errors = wrote(sink, (b"folder", b"1"), (b"file/x", b"2"), (b"fine", b"3"))
    assert keys == [b"folder", b"file/x"]
    assert "a folder has the name" in errors[0]
    assert "a file is where a folder" in errors[1]
    assert (out / "fine").read_bytes() == b"3"


def test_a_file_and_a_folder_of_one_name_are_found_before_the_batch_is_decided(sink, out):
    with pytest.raises(WriteError, match="another one's folder"):
        wrote(sink, (b"a/b", b"1"), (b"a", b"2"))
    assert files(out) == {}
    assert not list(out.glob(".penstock/*/*.json"))
    assert wrote(sink, (b"a/b", b"1")) == ([], [])
    assert files(out) == {"a/b": b"1"}


def test_two_inputs_of_one_task_cannot_have_one_output(out):
    sink = LocalFileSink(path=str(out), format="files", file_name="{stem}.out")
    keys, (error,) = wrote(sink, (b"a.csv", b"1"), (b"a.txt", b"2"), (b"b.csv", b"3"))
    assert keys == [b"a.txt"]
    assert "{path}" in error
    assert files(out) == {"a.out": b"1", "b.out": b"3"}


def test_two_inputs_of_two_tasks_cannot_either_and_the_fix_can_be_done(out):
    sink = LocalFileSink(path=str(out), format="files", file_name="{stem}.out")
    schema = sink.accepts(ENVELOPE)
    receipts = []
    for partition, key in enumerate((b"a.csv", b"a.txt")):
        writer = sink.open(BATCH, partition, 0, schema)
        writer.write(pa.RecordBatch.from_pylist([{"key": key, "value": b"x"}], schema=schema))
        receipts.append(evolve(writer.close(), partition=partition))
    with pytest.raises(WriteError, match="the same name") as caught:
        sink.finish(BATCH, receipts)
    assert "{path}" in caught.value.fix


def test_an_output_is_replaced_only_by_its_own_input(out):
    sink = LocalFileSink(path=str(out), format="files", file_name="{stem}.out")
    assert wrote(sink, (b"a.csv", b"first"), number=0) == ([], [])
    keys, (error,) = wrote(sink, (b"a.txt", b"other"), number=1)
    assert keys == [b"a.txt"]
    assert "a.out from a.csv" in error
    assert files(out) == {"a.out": b"first"}
    assert wrote(sink, (b"a.csv", b"second"), number=2) == ([], [])
    assert files(out) == {"a.out": b"second"}
    (out / "a.out").unlink()  # taken away: the name is free
    assert wrote(sink, (b"a.txt", b"other"), number=3) == ([], [])
    assert files(out) == {"a.out": b"other"}


@pytest.mark.parametrize("template", ["{path}", "{folder}{name}.x", "{folder}{stem}.x{ext}"])
def test_names_that_tell_inputs_apart_need_no_record(out, template):
    sink = LocalFileSink(path=str(out), format="files", file_name=template)
    wrote(sink, (b"a.csv", b"1"), (b"a.txt", b"2"))
    assert len(files(out)) == 2
    assert not (out / ".penstock" / "owners").exists()


def test_a_partition_whose_folder_cannot_be_named_is_refused_alone(tmp_path):
    sink = LocalFileSink(path=str(tmp_path), partition_by=["day"])
    rows = pa.record_batch({"value": [b"a", b"b", b"c"], "day": ["1", "x" * 300, "1"]})
    writer = sink.open(BATCH, 0, 0, rows.schema)
    writer.write(rows)
    receipt = writer.close()
    sink.finish(BATCH, [receipt])
    assert receipt.rows == 2
    (rejected,) = receipt.rejected
    assert rejected.rows.to_pylist() == [{"value": b"b", "day": "x" * 300}]
    assert list(files(tmp_path).values()) == [b"a\nc\n"]


def test_a_long_name_is_cut_between_characters_and_stays_one_name():
    assert suffixed(b"in/a", b".done") == b"in/a.done"
    for name in (b"x" * 252, "ä".encode() * 127, "€".encode() * 84):
        cut = suffixed(b"in/" + name, b".done")
        folder, _, last = cut.rpartition(b"/")
        assert (folder, len(last) <= 255, last.endswith(b".done")) == (b"in", True, True)
        cut.decode()
        assert cut != suffixed(b"in/" + name[:-3] + b"yyy", b".done")


def test_a_bad_file_with_a_long_name_has_its_report(out):
    sink = LocalFileSink(path=str(out), format="files", convert="json:loads")
    name = "n" * 250
    assert wrote(sink, (name.encode(), b"{")) == ([], [])
    made = files(out)
    assert made.pop(f"errors/{name}") == b"{"
    ((report, content),) = made.items()
    assert report.endswith(".error.json")
    assert json.loads(content)["file"] == name


@pytest.mark.parametrize("after", ["rename", "archive"])
def test_a_file_with_a_long_name_is_settled(tmp_path, after):
    folder = tmp_path / "in"
    folder.mkdir()
    source = LocalFiles(path=str(folder), after=after, changed="reprocess")
    planner = source.planner(Context(state=str(tmp_path / "state")))
    at = planner.initial()
    for content in (b"1\n", b"22\n"):
        (folder / ("n" * 252)).write_bytes(content)
        at = planner.latest(at, Limit())
        planner.durable(at)
    assert planner.latest(at, Limit()) == at
    planner.close()
    assert sorted(p.read_bytes() for p in folder.rglob("*") if p.is_file()) == [b"1\n", b"22\n"]
    assert not (folder / ("n" * 252)).exists()


@pytest.mark.parametrize("given", ["text", ["a", b"b"], 7, None], ids=repr)
def test_a_function_that_gives_no_bytes_makes_a_bad_file(out, monkeypatch, given):
    module = types.ModuleType("gives_no_bytes")
    module.convert = lambda data: given if data == b"bad" else data
    monkeypatch.setitem(sys.modules, module.__name__, module)
    sink = LocalFileSink(path=str(out), format="files", convert="gives_no_bytes:convert")
    assert wrote(sink, (b"a", b"bad"), (b"b", b"good")) == ([], [])
    made = files(out)
    assert (made["b"], made["errors/a"]) == (b"good", b"bad")
    assert json.loads(made["errors/a.error.json"])["kind"] == "TypeError"
    monkeypatch.undo()
    from penstock_localfile.engine.forafile import function

    function.cache_clear()


def large(tmp_path, **options):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "large").write_bytes(b"x" * 2000)
    (folder / "small").write_bytes(b"y")
    options = {"format": "whole", "max_record_bytes": 1000, "parts": 1, **options}
    source = LocalFiles(path=str(folder), **options)
    planner = source.planner(Context())
    (part,) = planner.plan(planner.initial(), planner.final())
    planner.close()
    return pa.Table.from_batches(list(source.read(part))).to_batches()


def test_a_file_that_is_too_large_is_a_bad_file_and_harms_no_other(tmp_path, sink, out):
    schema = sink.accepts(ENVELOPE)
    writer = sink.open(BATCH, 0, 0, schema)
    for rows in large(tmp_path, broken="pass"):
        writer.write(rows.select(schema.names))
    sink.finish(BATCH, [writer.close()])
    made = files(out)
    assert made.pop("small") == b"y"
    report = json.loads(made.pop("errors/large.error.json"))
    assert "larger than 1000 bytes" in report["message"]
    assert made == {}


@pytest.mark.parametrize("options", [{}, {"broken": "pass", "after": "delete"}], ids=str)
def test_a_file_that_is_too_large_stops_where_it_would_be_lost(tmp_path, options):
    with pytest.raises(ReadError, match="larger than 1000 bytes"):
        large(tmp_path, **options)
