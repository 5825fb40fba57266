"""The oracle, tried on twins that break what it guards."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.conformance.oracle import Oracle


@pytest.fixture
def oracle(penstock_seed):
    return Oracle(1000, penstock_seed)


def test_ids_are_unique_and_come_from_the_seed():
    assert len(set(Oracle(5000, 7).ids)) == 5000
    assert Oracle(100, 7).ids == Oracle(100, 7).ids
    assert not set(Oracle(100, 7).ids) & set(Oracle(100, 8).ids)


def test_all_ids_once_in_any_order_is_ok(oracle, penstock_seed):
    arrived = list(oracle.ids)
    random.Random(penstock_seed).shuffle(arrived)
    verdict = oracle.judge(arrived)
    assert verdict.ok
    assert verdict.require() is verdict
    assert verdict.arrived == 1000


def test_one_lost_id_is_found_and_named(oracle):
    verdict = oracle.judge(name for name in oracle.ids if name != oracle.ids[500])
    assert not verdict.ok
    assert verdict.lost == (oracle.ids[500],)
    with pytest.raises(AssertionError, match=f"lost: {oracle.ids[500]}"):
        verdict.require()


def test_a_duplicate_is_found_although_the_set_is_right(oracle):
    verdict = oracle.judge([*oracle.ids, oracle.ids[3], oracle.ids[3]])
    assert not verdict.ok
    assert verdict.duplicated == {oracle.ids[3]: 2}
    assert f"{oracle.ids[3]} x3" in str(verdict)


def test_a_duplicate_does_not_make_up_for_a_loss(oracle):
    verdict = oracle.judge([*oracle.ids[1:], oracle.ids[1]])
    assert verdict.arrived == verdict.sent
    assert (len(verdict.lost), verdict.surplus) == (1, 1)
    assert not verdict.ok


def test_an_id_nobody_sent_is_unexpected(oracle):
    verdict = oracle.judge([*oracle.ids, "stranger"])
    assert verdict.unexpected == {"stranger": 1}
    assert not verdict.ok


def test_duplicates_are_allowed_up_to_the_bound_and_no_further(oracle):
    assert oracle.judge([*oracle.ids, *oracle.ids[:10]], duplicates=10).ok
    assert not oracle.judge([*oracle.ids, *oracle.ids[:11]], duplicates=10).ok
    assert oracle.judge([*oracle.ids, *oracle.ids], duplicates=None).ok


def test_allowing_duplicates_allows_no_loss(oracle):
    assert not oracle.judge([*oracle.ids[1:], *oracle.ids[1:]], duplicates=None).ok


def test_the_report_is_short_however_many_are_lost(oracle):
    report = str(oracle.judge([]))
    assert "lost 1000" in report
    assert "and 990 more" in report
    assert f"seed {oracle.seed}" in report
    assert len(report) < 500


class Mailbox:
    """Arrivals in the portions a test wants them in; () is a moment without any."""

    def __init__(self, *portions):
        self.portions = list(portions)

    def __call__(self):
        return self.portions.pop(0) if self.portions else ()


def watch(oracle, *portions, **more):
    return oracle.watch(Mailbox(*portions), **{"quiet": 0.05, "within": 5, "pause": 0.001, **more})


def test_watching_ends_when_it_is_quiet_after_the_end_marker(oracle):
    assert watch(oracle, oracle.ids[:400], (), oracle.ids[400:], [oracle.end]).ok


def test_what_comes_after_the_end_marker_still_counts(oracle):
    verdict = watch(oracle, oracle.ids, [oracle.end], (), (), [oracle.ids[0]])
    assert verdict.duplicated == {oracle.ids[0]: 1}


def test_the_end_marker_may_overtake_the_rest(oracle):
    assert watch(oracle, [oracle.end], (), oracle.ids).ok


def test_the_end_marker_is_no_record_even_twice(oracle):
    assert watch(oracle, oracle.ids, [oracle.end, oracle.end]).ok


def test_all_ids_without_the_end_marker_are_not_enough(oracle):
    verdict = watch(oracle, oracle.ids, within=0.2)
    assert not verdict.lost
    assert not verdict.complete
    assert not verdict.ok
    assert "end marker never came" in str(verdict)


@given(st.lists(st.integers(0, 20), max_size=60))
def test_the_verdict_agrees_with_counting_by_hand(numbers):
    oracle = Oracle(15, 1)
    names = [*oracle.ids, *(f"stranger-{n}" for n in range(6))]
    verdict = oracle.judge(names[n] for n in numbers)
    assert set(verdict.lost) == {oracle.ids[n] for n in range(15) if n not in numbers}
    assert sum(verdict.unexpected.values()) == sum(n >= 15 for n in numbers)
    known = [n for n in numbers if n < 15]
    assert verdict.surplus == len(known) - len(set(known))
    clean = sorted(numbers) == list(range(15))
    assert verdict.ok == clean
