"""Exactly once: a transaction per task and batch, and the batch number committed inside it.

A transactional id belongs to one query, sink node and partition. The number of the last batch is
an offset of a consumer group of the same name, sent in the same transaction as the records: both
are there or neither. Whoever opens the id fences those who held it before, settles what they left
in doubt, and then reads the number.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any

import pyarrow as pa
from attrs import asdict
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from penstock.contracts import Batch, Context, Receipt, Rejected, Writer
from penstock.contracts.errors import EphemeralWriteError, LayoutError, PenstockError, WriteError
from penstock_kafka import clients
from penstock_kafka.faults import kafka_error, settings_fault, write_fault
from penstock_kafka.patience import patiently
from penstock_kafka.producer import ColumnProducer
from penstock_kafka.records import Sender
from penstock_kafka.refusals import Rule, sort_out
from penstock_kafka.settings import revealed
from penstock_kafka.sink import KafkaSink
from penstock_kafka.who import WHO
from penstock_kafka.writer import settings

log = logging.getLogger("penstock.kafka")
_ENDED = {
    KafkaError._FENCED,
    KafkaError._STATE,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
    KafkaError.INVALID_TXN_STATE,
}
"""What a producer hears whose transaction another has ended: the broker, or a newer holder."""


def base_name(ctx: Context) -> str:
    """What the transactional ids and groups of one sink begin with.

    Raises:
        WriteError: Spark did not tell which query this is.
    """
    if not ctx.query:
        raise WriteError(
            "exactly-once needs the id of the query",
            who=WHO,
            fix="write from a Penstock pipeline, or set delivery=at-least-once",
        )
    return f"penstock-{ctx.query}-{ctx.node}"


def marker(sink: KafkaSink, number: int, partitions: int | None) -> TopicPartition:
    """The offset that says: all batches up to this number are written."""
    noted = {"batch": number, "partitions": partitions, "rule": asdict(Rule.of(sink))}
    return TopicPartition(str(sink.topic), 0, number + 1, json.dumps(noted))


def read_marker(sink: KafkaSink, consumer: Consumer) -> tuple[int, dict[str, Any]]:
    """The last batch a group has noted, and what was noted with it; -1 if none."""

    def ask(left: float) -> TopicPartition:
        place = consumer.committed([TopicPartition(str(sink.topic), 0)], timeout=left)[0]
        if place.error is not None:
            raise KafkaException(place.error)
        return place

    found = patiently(ask, sink.timeout)
    if found.offset < 0:
        return -1, {}
    return found.offset - 1, json.loads(found.metadata or "{}")


def group_member(sink: KafkaSink, group: str) -> Consumer:
    """A client that reads and writes a group's offsets; it never joins the group."""
    made = {
        **revealed(sink.kafka),
        "bootstrap.servers": sink.servers,
        "client.id": sink.client_id,
        "group.id": group,
        "enable.auto.commit": False,
        # Makes the broker wait for offsets of a transaction that is being settled.
        "isolation.level": "read_committed",
    }
    try:
        return Consumer(made)
    except KafkaException as error:
        raise settings_fault(error) from None


class Holder:
    """A producer that holds a transactional id, and the last batch written under it."""

    def __init__(self, sink: KafkaSink, name: str) -> None:
        self.name = name
        made = settings(sink)
        made["transactional.id"] = name
        made["transaction.timeout.ms"] = str(int(sink.transaction_timeout * 1000))
        self.producer = ColumnProducer(made)
        member = group_member(sink, name)
        try:
            patiently(self.producer.init_transactions, sink.timeout)
            self.done, self.noted = read_marker(sink, member)
        except BaseException as error:
            self.producer.close()
            if not isinstance(error, KafkaException):
                raise
            raise write_fault(f"opening the transactional id {name}", error) from None
        finally:
            member.close()

    def close(self) -> None:
        """Leave the id; an open transaction is aborted by whoever opens the id next."""
        self.producer.close()


def open_transaction(sink: KafkaSink, batch: Batch, partition: int) -> Writer:
    """A writer of one task's share, or one that skips a share already written."""
    name = f"{base_name(batch.ctx)}-{partition}"
    key = ("transactional", name, tuple(sorted(settings(sink).items())))
    made: list[Holder] = []

    def make() -> Holder:
        made.append(Holder(sink, name))
        return made[-1]

    holder: Holder = clients.borrow(key, make)
    if not made and holder.done < batch.number and not _begin(sink, holder, batch):
        # Another worker has held the id since: what this one remembers is out of date.
        holder.close()
        holder = make()
    if holder.done >= batch.number:
        _same_layout(holder, batch)
        rule = holder.noted.get("rule") if holder.done == batch.number else None
        clients.hand_back(key, holder)
        return SkippingWriter(sink, Rule(**rule) if rule else Rule.of(sink))
    if made:
        if partition == 0:
            _look_for_gap(holder, batch)
        try:
            _begin_or_raise(sink, holder, batch)
        except BaseException:
            holder.close()
            raise
    return TransactionWriter(sink, batch, holder, key)


def _look_for_gap(holder: Holder, batch: Batch) -> None:
    """Of the first task's share only: a batch may have more tasks than all before it."""
    if holder.done < 0 < batch.number:
        log.warning(
            "kafka: no earlier batch of %s is noted, and this is batch %d: either the sink is new "
            "in this query, or it rested for longer than the broker keeps offsets "
            "(offsets.retention.minutes); then a batch in doubt is written again",
            batch.ctx.node,
            batch.number,
        )


def _begin(sink: KafkaSink, holder: Holder, batch: Batch) -> bool:
    try:
        _begin_or_raise(sink, holder, batch)
    except WriteError:
        return False
    return True


def _begin_or_raise(sink: KafkaSink, holder: Holder, batch: Batch) -> None:
    """Begin with the batch number: the broker then answers whether the id is still ours."""
    mark = marker(sink, batch.number, batch.partitions)
    try:
        holder.producer.begin_transaction()
        patiently(lambda left: holder.producer.send_offset(holder.name, mark, left), sink.timeout)
    except KafkaException as error:
        raise write_fault("beginning a transaction", error) from None


def _same_layout(holder: Holder, batch: Batch) -> None:
    """Skipping by partition on another layout would lose and double records at once.

    Raises:
        LayoutError: the batch is replayed with another number of partitions.
    """
    was = holder.noted.get("partitions")
    if holder.done == batch.number and None not in (was, batch.partitions):
        if was == batch.partitions:
            return
        holder.close()
        raise LayoutError(
            f"batch {batch.number} is replayed with another number of partitions",
            who=WHO,
            expected=f"{was}, as in the first attempt",
            got=str(batch.partitions),
            fix="run the replay with the same settings (shuffle partitions, adaptive execution)",
        )


class TransactionWriter(Writer):
    """Writes one task's share inside a transaction that has begun."""

    def __init__(self, sink: KafkaSink, batch: Batch, holder: Holder, key: tuple) -> None:
        self.sink = sink
        self.batch = batch
        self.holder = holder
        self.key = key
        self.over = False
        self.began = time.monotonic()
        self.sender = Sender(sink, holder.producer)

    def write(self, rows: pa.RecordBatch) -> None:
        try:
            self.sender.send(rows)
        except KafkaException as error:
            raise self._fault("writing", error) from None

    def close(self) -> Receipt:
        try:
            patiently(self.holder.producer.commit_transaction, self.sink.timeout)
        except KafkaException as error:
            # In doubt: the next attempt opens the id, which settles it, and looks.
            self._leave()
            raise self._fault("committing the transaction", error) from None
        self.holder.done = self.batch.number
        mark = marker(self.sink, self.batch.number, self.batch.partitions)
        self.holder.noted = json.loads(mark.metadata)
        self.over = True
        clients.hand_back(self.key, self.holder)
        return self.sender.receipt()

    def abort(self) -> None:
        if self.over:
            return
        try:
            self.holder.producer.abort_transaction(self.sink.timeout)
        except KafkaException as error:
            log.warning("%s", write_fault("aborting the transaction", error))
        self._leave()

    def _fault(self, doing: str, error: KafkaException) -> PenstockError:
        took, most = time.monotonic() - self.began, self.sink.transaction_timeout
        if took < most or kafka_error(error).code() not in _ENDED:
            return write_fault(doing, error)
        return EphemeralWriteError(
            f"the broker ended the transaction of a share that took {took:.0f} s",
            who=WHO,
            expected=f"at most transaction_timeout={most:g} s",
            got=kafka_error(error).str(),
            fix="raise transaction_timeout if shares take this long, or make batches smaller "
            "(max_rows); it is tried again",
        )

    def _leave(self) -> None:
        self.over = True
        self.holder.close()


class SkippingWriter(Writer):
    """Takes the rows of a share that an earlier attempt has committed.

    What that attempt refused is refused again: nobody may have heard of it.
    """

    def __init__(self, sink: KafkaSink, rule: Rule) -> None:
        self.sink = sink
        self.rule = rule
        self.rows = 0
        self.rejected: list[Rejected] = []

    def write(self, rows: pa.RecordBatch) -> None:
        good, refused = sort_out(self.sink, self.rule, rows)
        self.rows += sum(some.num_rows for _, some in good)
        self.rejected += refused

    def close(self) -> Receipt:
        return Receipt(self.rows, {"skipped": True}, tuple(self.rejected))

    def abort(self) -> None:
        """Nothing was begun."""
