import pytest

from penstock.contracts.errors import PositionError, ReadError
from penstock_localfile.engine.ledger import Ledger
from penstock_localfile.engine.storage import Entry


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(str(tmp_path / "state"), "here")
    yield made
    made.close()


def entries(*names, version=1):
    return [(Entry(name, len(name), 7), version) for name in names]


def test_numbers_rise_without_gaps_over_restarts(ledger, tmp_path):
    ledger.append(entries(b"a", b"b"))
    ledger.close()
    again = Ledger(str(tmp_path / "state"), "here")
    again.append(entries(b"c"))
    assert [(f.number, f.entry.path) for f in again.from_on(0)] == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert again.id == Ledger(str(tmp_path / "state"), "here").id
    again.close()


def test_the_newest_version_of_a_name_is_found(ledger):
    ledger.append(entries(b"a", b"\xff\xfe"))
    ledger.append(entries(b"a", version=2))
    found = ledger.find([b"a", b"\xff\xfe", b"nothing"])
    assert {path: f.version for path, f in found.items()} == {b"a": 2, b"\xff\xfe": 1}


def test_thousands_of_names_are_looked_up_at_once(ledger):
    names = [b"%d" % n for n in range(5_000)]
    ledger.append(entries(*names))
    assert len(ledger.find([*names, b"new"])) == 5_000


def test_a_full_disk_stops_loudly_and_adds_nothing(ledger):
    ledger.append(entries(b"a"))
    (pages,) = ledger._db.execute("PRAGMA page_count").fetchone()
    ledger._db.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(ReadError, match="disk is full"):
        ledger.append(entries(*(b"%d" % n * 100 for n in range(1000))))
    assert (ledger.count, len(list(ledger.from_on(0)))) == (1, 1)
    ledger._db.execute("PRAGMA max_page_count=1000000")
    ledger.append(entries(b"b"))
    assert [f.entry.path for f in ledger.from_on(0)] == [b"a", b"b"]


def test_a_file_that_is_no_ledger_is_told(tmp_path):
    (tmp_path / "files.sqlite").write_bytes(b"something else entirely" * 100)
    with pytest.raises(ReadError, match="cannot be kept"):
        Ledger(str(tmp_path), "here")


def test_the_ledger_of_another_place_is_refused(ledger, tmp_path):
    with pytest.raises(PositionError, match="another origin"):
        Ledger(str(tmp_path / "state"), "elsewhere")


def test_names_are_found_wherever_the_index_keeps_them(ledger, tmp_path, monkeypatch):
    monkeypatch.setattr("penstock_localfile.engine.ledger._RECENT", 10)
    for start in range(0, 100, 7):
        ledger.append(entries(*(b"%d" % n for n in range(start, start + 7))))
        assert set(ledger.find([b"0", b"%d" % (start + 6), b"x"])) == {b"0", b"%d" % (start + 6)}
    again = Ledger(str(tmp_path / "state"), "here")
    names = [b"%d" % n for n in range(105)]
    assert set(again.find(names)) == set(names)
    again.close()
