"""What is received, planned and committed, in order and within bounds."""

import pyarrow as pa

from penstock.contracts import ENVELOPE, Limit
from penstock.spark.queues.ledger import ROW_OVERHEAD, Ledger, fitting, row_sizes
from penstock.spark.queues.parts import CHUNK, carried

from .rows import Given


def ids(ledger, start, end):
    return [i for rows in ledger.rows(start, end) for i in rows.column("id").to_pylist()]


def test_a_batch_is_a_prefix_and_a_lease_waits_for_its_last_row():
    ledger = Ledger(1, Limit(rows=3, bytes=10**6), None)
    first, second = Given(["a", "b"]), Given(["c", "d"])
    ledger.add(0, first)
    ledger.add(0, second)
    assert ledger.plan(Limit(rows=3)) == 3
    assert ids(ledger, 0, 3) == ["a", "b", "c"]
    ledger.commit(3)
    assert ledger.due(0) == [first]
    assert ledger.plan(Limit(rows=3)) == 4
    assert (ledger.due(0), ids(ledger, 3, 4)) == ([], ["d"])
    ledger.commit(4)
    assert ledger.due(0) == [second]


def test_what_a_lost_connection_took_back_leaves_no_gap_and_is_not_due():
    ledger = Ledger(1, Limit(rows=10, bytes=10**6), None)
    ledger.add(0, Given(["a"]))
    assert ledger.plan(Limit(rows=1)) == 1
    ledger.add(0, Given(["b"]))
    ledger.void(0)
    ledger.add(0, Given(["c"]))
    assert ledger.plan(Limit(rows=5)) == 2
    assert ids(ledger, 1, 2) == ["c"]
    ledger.commit(1)
    assert ledger.due(0) == []


def test_bytes_bound_a_batch_but_a_giant_travels_alone():
    ledger = Ledger(1, Limit(rows=10, bytes=500), None)
    ledger.add(0, Given(["a", "big", "b"], [b"x", b"x" * 5000, b"x"]))
    limit = Limit(rows=10, bytes=500)
    assert [ledger.plan(limit) for _ in range(3)] == [1, 2, 3]


def test_what_waits_fills_a_batch_by_number_or_by_size():
    ledger = Ledger(1, Limit(rows=10, bytes=10**6), None)
    ledger.add(0, Given(["a", "big"], [b"x", b"x" * 5000]))
    limits = [{"rows": 2}, {"rows": 3}, {"rows": 3, "bytes": 5000}, {"rows": 3, "bytes": 6000}]
    assert [ledger.fills(Limit(**each)) for each in limits] == [True, False, True, False]
    ledger.plan(Limit())
    assert not ledger.fills(Limit(rows=1))


def test_a_source_of_one_lease_gets_no_second_one():
    ledger = Ledger(1, Limit(rows=10, bytes=10**6), 1)
    assert ledger.room(0).rows == 10
    lease = Given(["a"])
    ledger.add(0, lease)
    assert ledger.room(0).rows == 0
    ledger.commit(ledger.plan(Limit()))
    assert ledger.due(0) == [lease]
    assert ledger.room(0).rows == 10


def test_receivers_share_the_window():
    ledger = Ledger(2, Limit(rows=10, bytes=10**6), None)
    assert ledger.window.rows == 10
    ledger.add(0, Given([str(n) for n in range(10)]))
    assert (ledger.room(0).rows, ledger.room(1).rows) == (0, 10)


def test_a_receiver_takes_no_more_than_fills_a_batch():
    ledger = Ledger(1, Limit(rows=10, bytes=10**6), None)
    assert (ledger.window.rows, ledger.room(0).rows) == (20, 10)
    ledger.add(0, Given([str(n) for n in range(4)]))
    assert ledger.room(0).rows == 6
    ledger.add(0, Given([str(n) for n in range(6)]))
    assert ledger.room(0).rows == 10
    ledger.plan(Limit(rows=7))
    assert ledger.room(0).rows == 7, "three wait"
    ledger.commit(ledger.plan(Limit()))
    assert len(ledger.due(0)) == 2
    assert ledger.room(0).rows == 10


def test_a_receiver_takes_no_more_bytes_than_fill_a_batch():
    ledger = Ledger(1, Limit(rows=10, bytes=1000), None)
    assert ledger.room(0).bytes == 1000
    ledger.add(0, Given(["a"], [b"x" * 500]))
    assert ledger.room(0).bytes == 1000 - 500 - len("a") - ROW_OVERHEAD


def test_keys_ids_and_headers_count_as_bytes():
    headers = [{"key": "name", "value": b"x" * 10}, {"key": "ü", "value": None}]
    made = [
        {"value": b"v" * 5, "headers": headers},
        {"key": b"k" * 3, "id": "i" * 4, "headers": []},
        {"id": "i", "headers": None},
        {"headers": headers[:1]},
    ]
    rows = pa.RecordBatch.from_pylist(made, schema=ENVELOPE)
    wanted = [5 + 16, 7, 1, 14]
    assert (row_sizes(rows) - ROW_OVERHEAD).tolist() == wanted
    assert (row_sizes(rows.slice(1, 3)) - ROW_OVERHEAD).tolist() == wanted[1:]
    assert (row_sizes(rows.slice(2, 1)) - ROW_OVERHEAD).tolist() == [1]
    assert row_sizes(rows.slice(4)).tolist() == []


def test_headers_never_make_a_partition_too_large_for_spark():
    headers = [{"key": "h", "value": b"x" * 20_000}]
    made = [{"value": b"v", "headers": headers} for _ in range(1500)]
    parts = carried([pa.RecordBatch.from_pylist(made, schema=ENVELOPE)], 1)
    assert len(parts) == 4
    assert max(part.stream.size for part in parts) < 1.1 * CHUNK


def test_at_least_one_row_fits_any_limit():
    sizes = row_sizes(Given(["a", "b"]).rows)
    assert fitting(sizes, Limit(bytes=1)) == 1
    assert fitting(sizes, Limit(rows=5)) == 2
    assert fitting(sizes[:0], Limit(rows=5)) == 0
