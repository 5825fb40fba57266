import pyarrow as pa

from penstock_localfile.engine.batches import joined


def batch(*values):
    return pa.record_batch({"value": pa.array(values, pa.binary())})


def test_little_batches_become_one_in_the_same_order():
    found = list(joined(batch(b"%d" % n) for n in range(500)))
    assert len(found) == 1
    assert found[0]["value"].to_pylist() == [b"%d" % n for n in range(500)]


def test_a_large_batch_is_left_alone():
    large = batch(b"x" * (2 << 20))
    found = list(joined([batch(b"a"), large, batch(b"b")]))
    assert [b.num_rows for b in found] == [1, 1, 1]
    assert found[1] is large


def test_rows_before_a_failure_are_not_held_for_ever():
    def failing():
        for n in range(20_001):
            yield batch(b"%d" % n)
        raise ValueError

    seen = 0
    try:
        for each in joined(failing()):
            seen += each.num_rows
    except ValueError:
        pass
    assert seen == 20_000


def test_nothing_and_empty_batches_are_borne():
    assert list(joined([])) == []
    assert [b.num_rows for b in joined([batch(), batch()])] == [0]
