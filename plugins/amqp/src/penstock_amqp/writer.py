"""Publishes one task's share, with confirms pipelined over a window."""

from __future__ import annotations

import time
from collections import OrderedDict, defaultdict
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.contracts import Batch, Receipt, Rejected, Writer
from penstock.contracts.errors import EphemeralWriteError, WriteError
from penstock.contracts.points import reached
from penstock_amqp.link import Link
from penstock_amqp.outgoing import Outgoing, outgoing

if TYPE_CHECKING:
    from penstock_amqp.sink import AmqpSink

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0


class AmqpWriter(Writer):
    """Keeps what the broker has not confirmed, and sends it again over a new connection."""

    def __init__(self, sink: AmqpSink, batch: Batch, partition: int) -> None:
        self._sink = sink
        self._prefix = f"{batch.key}/{partition}"
        self._name = f"penstock {batch.ctx.pipeline}/{batch.ctx.node} partition {partition}"
        self._link: Link | None = None
        self._open: OrderedDict[int, Outgoing] = OrderedDict()
        self._by_id: dict[str, list[Outgoing]] = defaultdict(list)
        self._tag = 0
        self._rows = 0
        self._refused: list[Outgoing] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Publish; blocks while the window is full."""
        for message in outgoing(self._sink, rows, self._prefix, self._rows):
            if message.error is None:
                self._send(message)
            else:
                self._refused.append(message)
        self._rows += rows.num_rows
        reached("mid-write", rows=self._rows)

    def close(self) -> Receipt:
        """Wait for the last confirmation."""
        try:
            self._await(0)
        finally:
            self._disconnect()
        return Receipt(rows=self._rows - len(self._refused), rejected=_rejected(self._refused))

    def abort(self) -> None:
        """What is published stays published: AMQP has no way back."""
        self._disconnect()

    def _send(self, message: Outgoing) -> None:
        while True:
            try:
                link = self._connected()
                self._publish(link, message)
                if self._tag % 100 == 0:
                    link.pump(0.0)
                break
            except EphemeralWriteError as lost:
                self._again(lost, message)
        # Not within the try: what this raises has given up on messages that are not confirmed.
        if len(self._open) >= self._sink.window:
            self._await(self._sink.window // 2)

    def _publish(self, link: Link, message: Outgoing) -> None:
        assert link.channel is not None
        link.raise_if_lost()
        self._tag += 1
        self._open[self._tag] = message
        self._by_id[message.properties.message_id or ""].append(message)
        link.channel.basic_publish(
            self._sink.exchange,
            message.routing_key,
            message.body,
            message.properties,
            mandatory=self._sink.mandatory,
        )

    def _await(self, left: int) -> None:
        """Pump until at most so many wait for confirmation."""
        while len(self._open) > left:
            waiting, deadline = len(self._open), time.monotonic() + self._sink.confirm_timeout
            try:
                link = self._connected()
                while len(self._open) > left:
                    link.pump(1.0)
                    if len(self._open) < waiting:
                        waiting = len(self._open)
                        deadline = time.monotonic() + self._sink.confirm_timeout
                    elif time.monotonic() > deadline:
                        raise EphemeralWriteError(
                            f"the broker confirmed nothing for {self._sink.confirm_timeout:g} s"
                        )
            except EphemeralWriteError as lost:
                self._again(lost, None)

    def _again(self, lost: EphemeralWriteError, also: Outgoing | None) -> None:
        """Connect anew and publish what was not confirmed, in its order."""
        unsure = list(self._open.values())
        if also is not None and also in unsure:
            unsure.remove(also)  # its sender sends it again
        deadline = time.monotonic() + self._sink.retry_for
        pause = FIRST_PAUSE
        while True:
            self._disconnect()
            self._open.clear()
            self._by_id.clear()
            if time.monotonic() > deadline:
                raise lost
            time.sleep(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)
            try:
                link = self._connected()
                for message in unsure:
                    self._publish(link, message)
                link.pump(0.0)
                return
            except EphemeralWriteError as error:
                lost = error

    def _connected(self) -> Link:
        if self._link is None:
            link = Link(self._sink, self._name, writing=True)
            assert link.channel is not None
            self._link = link
            self._tag = 0
            link.channel.add_on_return_callback(self._returned)
            link.call(
                link.channel.confirm_delivery,
                "confirm mode",
                ack_nack_callback=self._confirmed,
            )
        return self._link

    def _disconnect(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _confirmed(self, frame: Any) -> None:
        method = frame.method
        tags = [method.delivery_tag]
        if method.multiple:
            tags = list(takewhile(lambda tag: tag <= method.delivery_tag, self._open))
        for tag in tags:
            message = self._open.pop(tag, None)
            if message is None:
                continue
            self._forget(message)
            if frame.method.NAME == "Basic.Nack":
                assert self._link is not None
                self._link.lose(
                    WriteError(
                        "the broker refused a message (basic.nack)",
                        got=f"routing key {message.routing_key!r}",
                        fix="see the broker's log: a queue may be full (x-overflow) or broken",
                    )
                )
            elif message.error is not None:
                self._refused.append(message)

    def _forget(self, message: Outgoing) -> None:
        name = message.properties.message_id or ""
        same = self._by_id.get(name)
        if same is not None:
            same.remove(message)
            if not same:
                del self._by_id[name]

    def _returned(self, channel: object, method: Any, properties: Any, body: bytes) -> None:
        """It reached no queue; its confirmation follows."""
        for message in self._by_id.get(properties.message_id or "", []):
            if message.error is None:
                message.error = (
                    f"the broker returned it: {method.reply_code} {method.reply_text} "
                    f"(exchange {method.exchange!r}, routing key {method.routing_key!r})"
                )
                return


def _rejected(messages: list[Outgoing]) -> tuple[Rejected, ...]:
    groups: dict[int, list[Outgoing]] = defaultdict(list)
    for message in messages:
        groups[id(message.rows)].append(message)
    return tuple(
        Rejected(
            rows=group[0].rows.take(pa.array([m.index for m in group], pa.int32())),
            errors=[m.error or "" for m in group],
        )
        for group in groups.values()
    )
