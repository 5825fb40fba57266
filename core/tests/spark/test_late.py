"""Late records are added up over all batches, whatever Spark still remembers of them."""

from types import SimpleNamespace

from penstock.spark.late import Late


def report(batch, *dropped):
    return {
        "batchId": batch,
        "stateOperators": [{"numRowsDroppedByWatermark": n} for n in dropped],
    }


def query(*reports):
    return SimpleNamespace(lastProgress=reports[-1] if reports else None, recentProgress=reports)


def test_the_total_never_shrinks_when_spark_forgets():
    late = Late()
    late.look(query())
    for batch in range(500):
        late.look(query(report(batch, 1, 2)))
    assert late.total == 1500


def test_a_report_seen_twice_counts_once():
    late = Late()
    late.look(query(report(0, 3)))
    late.look(query(report(0, 3)))
    assert late.total == 3


def test_a_batch_that_a_report_of_a_pause_has_replaced_is_looked_up():
    late = Late()
    late.look(query(report(0, 1)))
    late.look(query(report(0, 1), report(1, 4), report(2, 0)))
    assert late.total == 5
    late.look(query(report(0, 1), report(1, 4), report(2, 0), report(2, 7)))
    assert late.total == 12
