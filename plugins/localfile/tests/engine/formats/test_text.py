import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.contracts import Context
from penstock_localfile.engine.formats import text
from penstock_localfile.source import LocalFiles

BITS = ["1", "a", "é", ",", '"', '""', "\r", "\n", "\r\n", " ", "{", "}", '"id":', "\ufeff"]
LINES = ['{"id": 1, "name": "a"}\n', '1,"a"\n', '2,"b, c"\n', '{"id": 2}\n', "3,\n", '"x\n', 'y"\n']


def read(path, form, **options):
    source = LocalFiles(
        path=str(path), format=form, schema="id BIGINT, name STRING", header=False, **options
    )
    planner = source.planner(Context())
    parts = planner.plan(planner.initial(), planner.final())
    planner.close()
    return [row for p in parts for rows in source.read(p) for row in rows.to_pylist()]


@pytest.mark.parametrize("form", ["csv", "json"])
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(pieces=st.lists(st.sampled_from(BITS + LINES) | st.just("\udcff"), max_size=12))
def test_lines_read_at_once_are_what_they_are_one_by_one(tmp_path, monkeypatch, form, pieces):
    path = tmp_path / "a"
    path.write_bytes("".join(pieces).encode("utf-8", "surrogateescape"))
    quick = read(path, form)
    with monkeypatch.context() as patched:
        patched.setattr(text, "_at_once", lambda *_: None)
        assert read(path, form) == quick


@pytest.mark.parametrize(
    ("form", "good"), [("csv", b'1,"a, b"\n2,c\n'), ("json", b'{"id": 1}\n{"id": 2}\n')]
)
def test_good_lines_are_never_looked_at_one_by_one(tmp_path, monkeypatch, form, good):
    (tmp_path / "a").write_bytes(good * 1000)
    monkeypatch.setattr(text, "lines_of", None)
    rows = read(tmp_path / "a", form)
    assert [row["id"] for row in rows] == [1, 2] * 1000
    starts = [row["_pen"]["stamp"]["position"] for row in rows]
    assert starts[:3] == [0, good.index(b"\n") + 1, len(good)]
