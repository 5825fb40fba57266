"""Work items, progress and correlation, message by message."""

import pyarrow as pa
import pytest

from penstock.contracts import Batch, Context, Secret
from penstock_amqp.sink import AmqpSink
from penstock_amqp.work import Task, correlation

pytestmark = pytest.mark.server


@pytest.mark.slow
def test_answers_and_progress_say_what_they_belong_to(place):
    told = AmqpSink(url=Secret(place.server.url), routing_key=place.queue)

    def work(item, tell):
        tell("half")
        tell("nearly")
        return item.upper()

    headers = [{"key": "amqp.correlation_id", "value": b"order-7"}]
    meta = {"key": None, "headers": headers, "id": "m1"}
    assert Task(work, told)({"value": b"it", "_pen": meta}) == {"value": b"IT"}
    found = [(p.correlation_id, p.type, p.message_id, body) for _, p, body in place.take()]
    assert found == [
        ("order-7", "progress", "order-7/progress/1", b"half"),
        ("order-7", "progress", "order-7/progress/2", b"nearly"),
    ]


def test_without_a_correlation_id_the_message_id_is_it():
    assert correlation({"headers": None, "id": "m1"}) == "m1"


@pytest.mark.slow
def test_the_sink_correlates_what_has_no_correlation_of_its_own(place):
    sink = AmqpSink(url=Secret(place.server.url), routing_key=place.queue, correlate=True)
    schema = pa.schema([("value", pa.binary()), ("id", pa.string())])
    writer = sink.open(Batch(Context(query="q"), 0), 0, 0, schema)
    writer.write(pa.RecordBatch.from_pylist([{"value": b"x", "id": "item-1"}], schema=schema))
    writer.close()
    ((_, properties, _),) = place.take()
    assert properties.correlation_id == properties.message_id == "item-1"
