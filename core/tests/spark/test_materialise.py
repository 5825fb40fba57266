"""What of a plan is decided without a Spark session."""

from penstock.contracts.delivery import QueueOptions, ReadOptions
from penstock.pipeline.graph import Settings
from penstock.spark.materialise import bounds


def test_a_source_has_its_share_of_the_pipelines_limits():
    limits = Settings(max_rows=1000, max_bytes=301)
    assert bounds(limits, ReadOptions(), 1) == {"max_rows": 1000, "max_bytes": 301}
    assert bounds(limits, ReadOptions(), 3) == {"max_rows": 333, "max_bytes": 100}
    assert bounds(Settings(max_rows=1), ReadOptions(), 3) == {"max_rows": 1}


def test_a_sources_own_smaller_limit_holds():
    limits = Settings(max_rows=1000, max_wait=5.0)
    assert bounds(limits, ReadOptions(max_rows=10), 1) == {"max_rows": 10}
    assert bounds(limits, ReadOptions(max_rows=5000), 1) == {"max_rows": 1000}
    assert bounds(limits, QueueOptions(max_rows=10, max_wait=1.0), 1) == {
        "max_rows": 10,
        "max_wait": 1.0,
    }


def test_a_limit_that_a_source_has_by_default_gives_way():
    limits = Settings(max_rows=50_000, max_wait=5.0)
    assert bounds(limits, QueueOptions(), 1) == {"max_rows": 50_000, "max_wait": 5.0}


def test_without_limits_a_source_keeps_its_own():
    assert bounds(Settings(), QueueOptions(max_rows=10), 2) == {}
