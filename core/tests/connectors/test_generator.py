import json

import pyarrow as pa
import pytest

from penstock.connectors.generator import GeneratorSource
from penstock.contracts import ENVELOPE, Context, Limit
from penstock.contracts.errors import OptionError, PositionError
from penstock.contracts.options import parse


def rows_of(source, start=None, end=None):
    planner = source.planner(Context())
    parts = planner.plan(start or planner.initial(), end or planner.final())
    return pa.Table.from_batches([b for p in parts for b in source.read(p)], ENVELOPE)


def test_it_makes_as_many_records_as_asked_in_order():
    table = rows_of(GeneratorSource(rows=50_001))
    positions = [stamp["position"] for stamp in table["stamp"].to_pylist()]
    assert positions == list(range(50_001))


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others():
    first, again, other = (rows_of(GeneratorSource(rows=100, seed=s)) for s in (7, 7, 8))
    assert first.equals(again)
    assert not first["value"].equals(other["value"])


def test_a_value_is_an_order():
    order = json.loads(rows_of(GeneratorSource(rows=1))["value"][0].as_py())
    assert set(order) == {"id", "customer", "total", "at"}


def test_bytes_have_the_asked_size():
    values = rows_of(GeneratorSource(rows=10, format="bytes", size=1024))["value"].to_pylist()
    assert {len(value) for value in values} == {1024}


@pytest.mark.parametrize("parallelism", [1, 3, 8])
def test_parts_cover_a_batch_without_gap_or_overlap(parallelism):
    planner = GeneratorSource(rows=100, parallelism=parallelism).planner(Context())
    parts = planner.plan({"n": 10}, {"n": 15})
    covered = [n for part in parts for n in range(part.start, part.end)]
    assert covered == [10, 11, 12, 13, 14]


def test_limits_and_the_end_are_honoured():
    planner = GeneratorSource(rows=100).planner(Context())
    assert planner.latest({"n": 0}, Limit(rows=30)) == {"n": 30}
    assert planner.latest({"n": 0}, Limit(bytes=1000)) == {"n": 10}
    assert planner.latest({"n": 90}, Limit(rows=30)) == {"n": 100}
    assert planner.latest({"n": 100}, Limit(rows=30)) == {"n": 100}
    assert planner.latest({"n": 0}, Limit(), until={"n": 20}) == {"n": 20}
    assert planner.lag({"n": 40}) == {"0": 60}


@pytest.mark.parametrize("position", [{}, {"n": -1}, {"n": "x"}, {"offset": 3}])
def test_a_foreign_position_is_refused(position):
    planner = GeneratorSource(rows=100).planner(Context())
    with pytest.raises(PositionError):
        planner.plan(position, {"n": 5})


def test_a_position_beyond_the_source_is_refused():
    with pytest.raises(PositionError):
        GeneratorSource(rows=10).planner(Context()).plan({"n": 0}, {"n": 11})


def test_a_batch_read_without_rows_says_what_to_add():
    with pytest.raises(OptionError, match="needs an end"):
        GeneratorSource().planner(Context()).final()


@pytest.mark.parametrize("options", [{"rate": 0}, {"rows": -1}, {"size": 2}, {"format": "xml"}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(OptionError):
        parse(GeneratorSource, options)
