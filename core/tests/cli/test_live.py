"""The live view's plain lines."""

import pytest

from penstock.cli.live import View, _table, line


def progress(**changes):
    node = {"in": 1000, "out": 980, "errors": 15, "skipped": 5, "retried": 0, "rate": 250.0}
    given = {
        "pipeline": "orders",
        "running": True,
        "batch": 3,
        "seconds": 4.0,
        "nodes": {"enrich": node},
        "lag": {"enrich": {"0": 7, "1": 5}},
    }
    return {**given, **changes}


def test_a_line_says_counts_errors_skipped_and_lag():
    said = line(progress())
    assert said == "orders: batch 3, enrich 1,000, 15 dead letters, 5 skipped, 12 behind"
    assert "behind" not in line(progress(lag={}))


def test_a_table_has_a_row_for_each_node_with_rate_and_lag():
    table = _table(progress())
    cells = [next(iter(column.cells)) for column in table.columns]
    assert cells == ["enrich", "1,000", "980", "20", "250", "12"]
    assert table.title == "orders: running, batch 3, 4 s"
    assert "done" in _table(progress(running=False)).title


@pytest.mark.parametrize("quiet", [False, True])
def test_off_a_terminal_lines_go_to_standard_error_unless_quiet(capsys, quiet):
    with View("orders", quiet=quiet) as view:
        view.say("starting Spark")
        view.show(progress(), last=True)
        view.show(progress(), last=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == (0 if quiet else 2)
