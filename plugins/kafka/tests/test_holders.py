"""Transactional ids that pass from one worker to another, on a real broker."""

import uuid

import pytest

from penstock.contracts import Batch, Context
from penstock_kafka.sink import KafkaSink
from penstock_kafka.transactions import Holder, base_name

from .conftest import envelopes

pytestmark = [pytest.mark.server, pytest.mark.slow]


def write(sink, batch):
    writer = sink.open(batch, 0, 0, sink.accepts(envelopes([b"a"]).schema))
    writer.write(envelopes([b"a"]))
    return writer.close()


def test_an_id_that_another_worker_held_since_is_taken_back_without_an_alarm(
    kafka, new_topic, capfd, caplog
):
    ctx = Context(query=str(uuid.uuid4()), node="kafka")
    sink = KafkaSink(servers=kafka.address, topic=new_topic())
    write(sink, Batch(ctx, 0))
    Holder(sink, f"{base_name(ctx)}-0").close()
    caplog.set_level("DEBUG")
    assert write(sink, Batch(ctx, 1)).rows == 1
    assert {r.levelname for r in caplog.records if "fenced" in r.getMessage()} == {"DEBUG"}
    assert "fenced" not in capfd.readouterr().err
