import os
import pickle
import random

import pytest

from penstock.contracts import Context, Limit
from penstock.contracts.errors import (
    DataLossError,
    OptionError,
    PositionError,
    ReadError,
)
from penstock.contracts.options import parse
from penstock_localfile.source import LocalFiles


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "in"
    made.mkdir()
    return made


@pytest.fixture
def state(tmp_path):
    return Context(state=str(tmp_path / "state"))


def put(folder, name, data, at=None):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    if at is not None:
        os.utime(path, (at, at))
    return path


def rows_of(source, parts):
    found = []
    for part in pickle.loads(pickle.dumps(parts)):
        for rows in source.read(part):
            assert rows.schema.equals(source.schema())
            found += rows.to_pylist()
    return found


def values_of(source, parts):
    return [row["value"] for row in rows_of(source, parts)]


def read_all(source):
    planner = source.planner(Context())
    try:
        return rows_of(source, planner.plan(planner.initial(), planner.final()))
    finally:
        planner.close()


def drain(source, ctx, limit, start=None):
    """Batches until nothing is new, each planned by a process of its own."""
    batches = []
    planner = source.planner(ctx)
    at = start or planner.initial()
    while (end := planner.latest(at, limit)) != at:
        planner.close()
        other = source.planner(ctx)
        batches.append(values_of(source, other.plan(at, end)))
        at, planner = end, other
    planner.close()
    return batches, at


def test_lines_carry_their_file_and_byte_offset(folder):
    put(folder, "a.txt", b"one\ntwo\r\n\nfour", at=1_700_000_000)
    rows = read_all(LocalFiles(path=str(folder)))
    assert [row["value"] for row in rows] == [b"one", b"two", b"", b"four"]
    assert [row["stamp"]["position"] for row in rows] == [0, 4, 9, 10]
    assert {row["stamp"]["part"] for row in rows} == {"a.txt"}
    assert {row["stamp"]["origin"] for row in rows} == {f"file:{folder}"}
    assert {row["event_time"].timestamp() for row in rows} == {1_700_000_000.0}


def test_a_whole_file_is_one_row_with_its_path_as_key(folder):
    put(folder, "a.bin", b"\x00\n\xff")
    put(folder, "empty.bin", b"")
    rows = read_all(LocalFiles(path=str(folder), format="whole", order="name"))
    assert [(row["key"], row["value"]) for row in rows] == [
        (b"a.bin", b"\x00\n\xff"),
        (b"empty.bin", b""),
    ]
    assert {h["key"]: h["value"] for h in rows[0]["headers"]}["size"] == b"3"


@pytest.mark.parametrize(
    ("glob", "options", "expected"),
    [
        ("", {}, ["a.log", "b.txt"]),
        ("*.log", {}, ["a.log"]),
        ("*.log", {"recursive": True}, ["a.log", "c.log"]),
        ("", {"recursive": True}, ["a.log", "b.txt", "c.log"]),
        ("**/*.log", {}, ["a.log", "c.log"]),
        ("", {"hidden": True}, [".h", "_s", "a.log", "b.txt"]),
    ],
)
def test_the_path_chooses_files(folder, glob, options, expected):
    for name in ("a.log", "b.txt", "deep/c.log", ".h", "_s"):
        put(folder, name, os.path.basename(name).encode())
    rows = read_all(LocalFiles(path=os.path.join(folder, glob), **options))
    assert sorted(row["value"].decode() for row in rows) == expected


def test_one_file_can_be_named(folder):
    path = put(folder, "_a[1].txt", b"x\n")
    put(folder, "other.txt", b"y\n")
    assert [row["value"] for row in read_all(LocalFiles(path=str(path)))] == [b"x"]


def test_a_file_named_like_the_glob_hides_no_other(folder):
    for name in ("*.txt", "a.txt", "?.txt"):
        put(folder, name, name.encode())
    for glob in ("*.txt", "?.txt"):
        rows = read_all(LocalFiles(path=f"{folder}/{glob}"))
        assert sorted(row["value"] for row in rows) == [b"*.txt", b"?.txt", b"a.txt"]
    assert [r["value"] for r in read_all(LocalFiles(path=f"{folder}/[*].txt"))] == [b"*.txt"]


def test_files_come_in_the_order_of_their_time_or_name(folder):
    put(folder, "a", b"late", at=2000)
    put(folder, "b", b"early", at=1000)
    by_time = read_all(LocalFiles(path=str(folder)))
    by_name = read_all(LocalFiles(path=str(folder), order="name"))
    assert [row["value"] for row in by_time] == [b"early", b"late"]
    assert [row["value"] for row in by_name] == [b"late", b"early"]


def test_a_large_file_is_read_in_ranges_that_lose_nothing(folder):
    rng = random.Random(11)
    data = b"".join(b"x" * rng.randrange(300) + b"\n" for _ in range(40_000))
    put(folder, "big", data)
    source = LocalFiles(path=str(folder), split_bytes=1 << 20)
    planner = source.planner(Context())
    parts = planner.plan(planner.initial(), planner.final())
    planner.close()
    assert len(parts) >= 5
    rows = rows_of(source, parts)
    assert [row["value"] for row in rows] == data.split(b"\n")[:-1]
    positions = [row["stamp"]["position"] for row in rows]
    assert positions == sorted(set(positions))


def test_many_small_files_share_a_few_parts(folder):
    for i in range(500):
        put(folder, f"{i:03d}", b"x")
    planner = LocalFiles(path=str(folder)).planner(Context())
    parts = planner.plan(planner.initial(), planner.final())
    planner.close()
    assert 2 <= len(parts) <= 16
    assert sum(len(part.ranges) for part in parts) == 500


def test_new_files_enter_later_batches_once(folder, state):
    source = LocalFiles(path=str(folder))
    put(folder, "a", b"1\n2\n")
    first, at = drain(source, state, Limit())
    assert first == [[b"1", b"2"]]
    assert drain(source, state, Limit(), at) == ([], at)
    put(folder, "b", b"3\n")
    assert drain(source, state, Limit(), at)[0] == [[b"3"]]


def test_a_planned_batch_is_the_same_in_another_process_for_ever(folder, state):
    source = LocalFiles(path=str(folder))
    put(folder, "a", b"1\n")
    planner = source.planner(state)
    start = planner.initial()
    end = planner.latest(start, Limit())
    parts = planner.plan(start, end)
    planner.close()
    put(folder, "0-earlier-by-name-and-time", b"9\n", at=1)
    again = source.planner(state)
    assert again.plan(start, end) == parts
    assert values_of(source, again.plan(start, end)) == [b"1"]
    again.close()


@pytest.mark.parametrize("rows", [1, 3, 7, 100])
def test_a_limit_of_rows_cuts_within_files(folder, state, rows):
    expected = []
    for i in range(5):
        lines = [f"{i}-{j}".encode() for j in range(i * 3)]
        put(folder, f"{i}", b"".join(line + b"\n" for line in lines), at=1000 + i)
        expected += lines
    batches, _ = drain(LocalFiles(path=str(folder)), state, Limit(rows=rows))
    assert [v for batch in batches for v in batch] == expected
    assert all(len(batch) <= rows for batch in batches)
    assert max(len(batch) for batch in batches) == min(rows, len(expected))


@pytest.mark.parametrize("rows", [1, 3, 100])
@pytest.mark.parametrize("chunk", [1, 2, 5, 1000])
def test_a_limit_of_rows_cuts_at_any_line_end_of_text(folder, state, monkeypatch, rows, chunk):
    monkeypatch.setattr("penstock_localfile.engine.planner._CHUNK", chunk)
    data = b"one\r\n\rtwo\r\r\nthree\n\nfour\r"
    put(folder, "a", data, at=1000)
    put(folder, "b", b"five\r\nsix", at=1001)
    expected = [line.decode() for line in [*data.splitlines(), b"five", b"six"]]
    source = LocalFiles(path=str(folder), format="text")
    batches, _ = drain(source, state, Limit(rows=rows))
    assert [v for batch in batches for v in batch] == expected
    assert all(len(batch) <= rows for batch in batches)
    assert max(len(batch) for batch in batches) == min(rows, len(expected))


@pytest.mark.parametrize("size", [1, 10, 64, 100_000])
def test_a_limit_of_bytes_cuts_at_line_ends(folder, state, size):
    expected = []
    for i in range(4):
        lines = [b"x" * (j % 13) + b"%d" % i for j in range(40)]
        put(folder, f"{i}", b"\n".join(lines), at=1000 + i)
        expected += lines
    batches, _ = drain(LocalFiles(path=str(folder)), state, Limit(bytes=size))
    assert [v for batch in batches for v in batch] == expected
    assert all(sum(len(v) + 1 for v in b) <= max(size, 15) + 1 for b in batches if len(b) > 1)


def test_a_limit_of_files_takes_that_many(folder, state):
    for i in range(5):
        put(folder, f"{i}", b"x%d\n" % i, at=1000 + i)
    batches, _ = drain(LocalFiles(path=str(folder)), state, Limit(files=2))
    assert [len(batch) for batch in batches] == [2, 2, 1]


def test_whole_files_count_as_one_row_each(folder, state):
    for i in range(5):
        put(folder, f"{i}", b"x" * 100, at=1000 + i)
    source = LocalFiles(path=str(folder), format="whole")
    assert [len(b) for b in drain(source, state, Limit(rows=2))[0]] == [2, 2, 1]


def test_whole_files_are_never_cut_by_bytes(folder, tmp_path):
    for i in range(5):
        put(folder, f"{i}", b"x" * 100, at=1000 + i)
    source = LocalFiles(path=str(folder), format="whole")
    for size, sizes in ((1, [1] * 5), (250, [2, 2, 1]), (1000, [5])):
        ctx = Context(state=str(tmp_path / f"state-{size}"))
        assert [len(b) for b in drain(source, ctx, Limit(bytes=size))[0]] == sizes


def test_a_bounded_look_ends_where_it_began_though_files_keep_coming(folder, state):
    source = LocalFiles(path=str(folder))
    put(folder, "a", b"1\n2\n3\n")
    planner = source.planner(state)
    at = planner.initial()
    until = planner.latest(at, Limit())
    seen = []
    while (end := planner.latest(at, Limit(rows=2), until)) != at:
        put(folder, f"more-{len(seen)}", b"9\n")
        seen += values_of(source, planner.plan(at, end))
        at = end
    planner.close()
    assert seen == [b"1", b"2", b"3"]
    assert at == until


def test_the_position_stays_small(folder, state):
    for i in range(300):
        put(folder, f"{i}", b"x\n")
    planner = LocalFiles(path=str(folder)).planner(state)
    end = planner.latest(planner.initial(), Limit())
    planner.close()
    assert len(str(end)) < 60


def test_the_lag_is_the_number_of_files_not_yet_read(folder, state):
    for i in range(5):
        put(folder, f"{i}", b"x\n")
    planner = LocalFiles(path=str(folder)).planner(state)
    at = planner.latest(planner.initial(), Limit(files=2))
    assert planner.lag(at) == {"files": 3}
    planner.close()


def test_a_stream_without_state_is_refused_with_what_to_do(folder):
    planner = LocalFiles(path=str(folder)).planner(Context())
    with pytest.raises(OptionError, match="remember") as caught:
        planner.latest(planner.initial(), Limit())
    assert 'option("state"' in str(caught.value)
    planner.close()


@pytest.mark.parametrize(
    "position",
    [
        {},
        {"files": -1},
        {"files": "3"},
        {"files": 0},
        {"files": 0, "log": "another"},
        {"offset": 3},
        {"files": True},
    ],
)
def test_a_foreign_position_is_a_typed_error(folder, state, position):
    planner = LocalFiles(path=str(folder)).planner(state)
    with pytest.raises(PositionError):
        planner.plan(position, position)
    with pytest.raises(PositionError):
        planner.latest(position, Limit())
    planner.close()


def test_a_position_of_the_future_is_a_typed_error(folder, state):
    planner = LocalFiles(path=str(folder)).planner(state)
    with pytest.raises(PositionError, match="future"):
        planner.plan(planner.initial(), {**planner.initial(), "files": 5})
    planner.close()


def test_the_state_of_another_folder_is_refused(folder, state, tmp_path):
    LocalFiles(path=str(folder)).planner(state).close()
    with pytest.raises(PositionError, match="another origin"):
        LocalFiles(path=str(tmp_path)).planner(state)


def test_a_second_query_on_one_state_folder_dies(folder, state):
    source = LocalFiles(path=str(folder))
    one, other = source.planner(state), source.planner(state)
    put(folder, "a", b"1\n")
    one.latest(one.initial(), Limit())
    with pytest.raises(ReadError, match="another query"):
        other.latest(other.initial(), Limit())
    one.close()
    other.close()


def test_a_file_that_is_gone_is_data_loss(folder):
    source = LocalFiles(path=str(folder))
    path = put(folder, "a", b"1\n")
    planner = source.planner(Context())
    parts = planner.plan(planner.initial(), planner.final())
    planner.close()
    path.unlink()
    with pytest.raises(DataLossError, match="not the one"):
        values_of(source, parts)


def test_a_file_that_has_grown_is_read_as_it_was(folder):
    source = LocalFiles(path=str(folder))
    path = put(folder, "a", b"1\n2\n")
    planner = source.planner(Context())
    parts = planner.plan(planner.initial(), planner.final())
    planner.close()
    with path.open("ab") as file:
        file.write(b"3\n")
    assert values_of(source, parts) == [b"1", b"2"]


def test_a_missing_folder_is_named(tmp_path):
    source = LocalFiles(path=str(tmp_path / "nothing"))
    with pytest.raises(ReadError, match="missing") as caught:
        source.check()
    assert "nothing" in str(caught.value)


def test_a_mistyped_option_gets_a_suggestion():
    with pytest.raises(OptionError, match="unknown") as caught:
        parse(LocalFiles, {"path": "/x", "recursiv": "true"})
    assert "recursive" in str(caught.value)


def test_a_missing_path_is_named():
    with pytest.raises(OptionError, match="path is missing"):
        parse(LocalFiles, {})
