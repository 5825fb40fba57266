"""The number of partitions of a batch, fixed before its first write."""

from __future__ import annotations

import logging

from confluent_kafka import KafkaException

from penstock.contracts import Batch
from penstock.contracts.errors import LayoutError
from penstock_kafka import clients
from penstock_kafka.faults import write_fault
from penstock_kafka.patience import commit
from penstock_kafka.sink import KafkaSink
from penstock_kafka.transactions import (
    base_name,
    group_member,
    marker,
    read_marker,
    refuse_other_layout,
)

log = logging.getLogger("penstock.kafka")


def keep_layout(sink: KafkaSink, batch: Batch) -> None:
    """Note the layout of a batch, or refuse another one for a batch that was begun before.

    Raises:
        LayoutError: it was begun with another number of partitions.
    """
    group = f"{base_name(batch.ctx)}-layout"
    key = ("layout", group, sink.servers, str(sorted(sink.kafka)))
    member = clients.borrow(key, lambda: group_member(sink, group))
    try:
        begun, noted = read_marker(sink, member)
        if begun == batch.number:
            refuse_other_layout(batch, noted.get("partitions"))
        elif begun < batch.number:
            _look_for_gap(batch, begun)
            mark = marker(sink, batch.number, batch.partitions)
            commit(member, [mark], sink.timeout)
    except LayoutError:
        member.close()
        raise
    except KafkaException as error:
        member.close()
        raise write_fault(f"noting the layout of batch {batch.number}", error) from None
    clients.hand_back(key, member)


def _look_for_gap(batch: Batch, begun: int) -> None:
    if begun < 0 < batch.number:
        log.warning(
            "kafka: no earlier batch of %s is noted, and this is batch %d: either the sink is new "
            "in this query, or it rested for longer than the broker keeps offsets "
            "(offsets.retention.minutes); then a batch in doubt is written again",
            batch.ctx.node,
            batch.number,
        )
