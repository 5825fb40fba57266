"""What a worker holds after its first task is left out of Spark's collections, and only there."""

import gc

import pytest

from penstock.spark import settling


@pytest.fixture
def fresh(monkeypatch):
    monkeypatch.setattr(settling, "_seen", None)
    monkeypatch.setattr(settling, "_settled", False)
    yield
    gc.unfreeze()


def test_what_outlived_a_collection_is_left_out_of_the_next(fresh, monkeypatch):
    monkeypatch.setattr(settling, "_of_spark", lambda: True)
    settling.settle()
    assert gc.get_freeze_count() == 0, "the first task still imports"
    gc.collect()
    settling.settle()
    frozen = gc.get_freeze_count()
    assert frozen > 10_000
    gc.collect()
    settling.settle()
    assert gc.get_freeze_count() <= frozen, "once"


def test_a_users_own_process_is_left_alone(fresh):
    settling.settle()
    gc.collect()
    settling.settle()
    assert gc.get_freeze_count() == 0
