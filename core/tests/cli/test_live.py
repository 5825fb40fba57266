"""The live view: a table on a terminal, plain lines elsewhere."""

import io

import pytest
from rich.console import Console

from penstock.cli.live import View, _table, line, short


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
    table = _table(progress(), 80)
    cells = [str(next(iter(column.cells))) for column in table.columns]
    assert cells == ["enrich", "1,000", "980", "20", "250", "12"]
    assert str(table.title) == "orders: running, batch 3, 4 s"
    assert "done" in _table(progress(running=False), 80).title


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_number_and_no_name_is_cut_however_narrow_the_terminal(width):
    large = {"in": 123_456_789, "out": 98_765_432, "errors": 1_234, "skipped": 0, "rate": 123_456.0}
    nodes = {"archive-of-all-orders[eu]": large, "b": large}
    given = progress(nodes=nodes, lag={"b": {"0": 7_654_321}})
    console = Console(width=width, file=io.StringIO())
    console.print(_table(given, width))
    text = console.file.getvalue()
    assert "…" not in text
    exact = {"123,456,789", "98,765,432", "1,234", "123,456", "7,654,321"}
    assert set(text.split()) >= ({"123M", "99M", "1.2k", "123k", "7.7M"} if width < 80 else exact)
    first = "".join(row.split()[0] for row in text.splitlines() if row.strip())
    assert "archive-of-all-orders[eu]b" in first


@pytest.mark.parametrize("quiet", [False, True])
def test_off_a_terminal_lines_go_to_standard_error_unless_quiet(capsys, quiet):
    with View("orders", quiet=quiet) as view:
        view.say("starting Spark")
        view.show(progress(), last=True)
        view.show(progress(), last=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == (0 if quiet else 2)


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0"), (999, "999"), (999.7, "1.0k"), (9_960, "10k"), (1_234_567, "1.2M"), (5e15, "5000T")],
)
def test_a_short_number_keeps_its_magnitude(number, said):
    assert short(number) == said
