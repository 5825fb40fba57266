"""What waits is given out in order and within every limit."""

import random

import pytest

from penstock.contracts import Limit
from penstock_amqp.messages import rows_of
from penstock_amqp.received import Received
from penstock_amqp.runs import Pending, joined


def run_of(first, sizes, counts=False):
    messages = [
        Received(
            "t",
            first + n,
            False,
            b"k",
            size=size,
            headers={"x-delivery-count": n} if counts else None,
        )
        for n, size in enumerate(sizes)
    ]
    return rows_of(messages, {"t": "amqp:q"}, "part")


def expected(sizes, limit):
    """How many of the first may be taken."""
    taken = size = 0
    for each in sizes:
        size += each
        full = limit.rows is not None and taken >= limit.rows
        if full or (taken and limit.bytes is not None and size > limit.bytes):
            break
        taken += 1
    return taken


def test_any_limit_takes_the_first_that_fit(penstock_seed):
    chance = random.Random(penstock_seed)
    pending, sizes, tags = Pending(read=lambda run: run), [], []
    for n in range(100):
        more = [chance.randint(14, 1000) for _ in range(chance.randint(1, 50))]
        pending.append(run_of(1000 * n, more), sum(more))
        sizes += more
        tags += [1000 * n + each for each in range(len(more))]
    while sizes:
        limit = Limit(
            rows=chance.choice([None, 1, 7, 100, 200]),
            bytes=chance.choice([None, 1, 500, 20_000, 100_000]),
        )
        full = limit.rows is not None and len(sizes) >= limit.rows
        full = full or (limit.bytes is not None and sum(sizes) >= limit.bytes)
        assert pending.fills(limit) == full
        count = expected(sizes, limit)
        taken = pending.take(limit)
        assert taken.tags().to_pylist() == tags[:count]
        assert taken.sizes.tolist() == sizes[:count]
        del tags[:count], sizes[:count]
        assert len(pending) == len(sizes)


def test_room_is_told_by_the_size_of_messages_before():
    pending = Pending(read=lambda run: run)
    assert pending.room(Limit(rows=10)) == 0, "nothing is known yet"
    pending.append(run_of(1, [100] * 4), 400)
    assert pending.room(Limit(rows=10)) == 600
    assert pending.room(Limit(rows=10, bytes=500)) == 100
    pending.take(Limit(rows=4))
    assert pending.room(Limit(rows=10)) == 1000


@pytest.mark.parametrize("counted", [False, True])
def test_what_the_broker_did_not_count_came_once(counted):
    found = joined([run_of(1, [20, 20]), run_of(3, [20, 20], counts=counted)]).deliveries
    assert found is None if not counted else found.to_pylist() == [1, 1, 1, 2]
