"""Broken queue sources."""

import sys
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve

from penstock.conformance.reference.folder_source import FolderSource
from penstock.conformance.reference.socket_sink import SocketSink
from penstock.conformance.reference.socket_source import SocketConsumer, SocketLease, SocketSource
from penstock.contracts import Limit, Secret, option
from penstock.contracts import connector as configured
from penstock.contracts.errors import EphemeralReadError
from twins.making import broken

KEPT = []


class Twisted(SocketSource):
    """A source whose consumer is of another class, on the same connection."""

    kind = SocketConsumer

    def consumer(self, ctx, receiver):
        consumer = super().consumer(ctx, receiver)
        consumer.__class__ = self.kind
        return consumer


class AcknowledgesAtOnce(SocketConsumer):
    """Takes more than it is asked for, and tells the broker that it is safe."""

    waiting = None

    def receive(self, limit, wait):
        if limit.rows == 0:
            return super().receive(limit, wait)
        lease = super().receive(Limit(rows=1000), wait)
        if lease is None:
            return None
        SocketLease.acknowledge(lease)
        room = limit.rows or 1000
        cut = lease.rows.slice(0, room)
        lease.rows = cut
        lease.redelivered = lease.redelivered.slice(0, room)
        lease.deliveries = lease.deliveries.slice(0, room)
        return lease


@broken("QUE-01", "QUE-19", base="sockets")
class SafeTooSoon(Twisted):
    kind = AcknowledgesAtOnce


class Mute(SocketLease):
    def acknowledge(self):
        pass


class AcknowledgesWhatItGives(SocketConsumer):
    """Tells the broker that what it hands out is safe, and of nothing else."""

    def receive(self, limit, wait):
        lease = super().receive(limit, wait)
        if lease is not None:
            lease.acknowledge()
            lease.__class__ = Mute
        return lease


@broken("QUE-02", base="sockets")
class SafeBeforeItIsWritten(Twisted):
    kind = AcknowledgesWhatItGives


class NeverAcknowledges(SocketConsumer):
    def receive(self, limit, wait):
        lease = super().receive(limit, wait)
        if lease is not None:
            lease.__class__ = Mute
        return lease


@broken("QUE-03", "QUE-17", base="sockets")
class NeverSaysSo(Twisted):
    kind = NeverAcknowledges


class Doubles(SocketConsumer):
    def receive(self, limit, wait):
        asked = limit if limit.rows in (0, None) else evolve(limit, rows=max(limit.rows // 2, 1))
        lease = super().receive(asked, wait)
        if lease is None:
            return None
        lease.rows = pa.concat_batches([lease.rows, lease.rows])
        lease.redelivered = pa.concat_arrays([lease.redelivered, lease.redelivered])
        lease.deliveries = pa.concat_arrays([lease.deliveries, lease.deliveries])
        return lease


@broken("QUE-04", base="sockets")
class SaysAllTwice(Twisted):
    kind = Doubles


class Stubborn(SocketLease):
    def acknowledge(self):
        try:
            super().acknowledge()
        except EphemeralReadError:
            return


class Forgiving(SocketConsumer):
    def receive(self, limit, wait):
        lease = super().receive(limit, wait)
        if lease is not None:
            lease.__class__ = Stubborn
        return lease


@broken("QUE-05", base="sockets")
class ForgivesStaleLeases(Twisted):
    kind = Forgiving


class Keeper(SocketLease):
    def release(self):
        pass


class NeverReleases(SocketConsumer):
    def receive(self, limit, wait):
        lease = super().receive(limit, wait)
        if lease is not None:
            lease.__class__ = Keeper
        return lease


@broken("QUE-06", base="sockets")
class KeepsWhatItReleased(Twisted):
    kind = NeverReleases


class CopiesReleases(SocketConsumer):
    """What was released comes back twice."""

    def receive(self, limit, wait):
        lease = super().receive(limit, wait)
        if lease is not None and any(lease.redelivered.to_pylist()):
            lease.rows = pa.concat_batches([lease.rows, lease.rows])
            lease.redelivered = pa.concat_arrays([lease.redelivered, lease.redelivered])
            lease.deliveries = pa.concat_arrays([lease.deliveries, lease.deliveries])
        return lease


@broken("QUE-06", base="sockets")
class GivesReleasesTwice(Twisted):
    kind = CopiesReleases


class LocalTimes(SocketConsumer):
    """Takes an instant for a local time, which shows only in another zone."""

    def _envelopes(self, messages):
        off = datetime.now().astimezone().utcoffset()
        rows = super()._envelopes(messages)
        at = rows.schema.get_field_index("event_time")
        moved = pc.add(rows.column(at), pa.scalar(off, pa.duration("us")))
        return rows.set_column(at, rows.schema.field(at), moved)


@broken("QUE-15", base="sockets")
class TellsLocalTimes(Twisted):
    kind = LocalTimes


class Fresh(SocketConsumer):
    def receive(self, limit, wait):
        lease = super().receive(limit, wait)
        if lease is not None:
            lease.redelivered = pa.array([False] * lease.rows.num_rows)
            lease.deliveries = None
        return lease


@broken("QUE-07", "QUE-20", base="sockets")
class AllIsFresh(Twisted):
    kind = Fresh


class Backwards(SocketConsumer):
    def receive(self, limit, wait):
        lease = super().receive(limit, wait)
        if lease is not None:
            lease.rows = lease.rows.take(pa.array(range(lease.rows.num_rows - 1, -1, -1)))
        return lease


@broken("QUE-08", base="sockets")
class LastComesFirst(Twisted):
    kind = Backwards


class Greedy(SocketConsumer):
    def receive(self, limit, wait):
        return super().receive(Limit(rows=1) if limit.rows == 0 else limit, wait)


@broken("QUE-09", base="sockets")
class TakesWhatItShouldNot(Twisted):
    kind = Greedy


class Clearing(SocketConsumer):
    def close(self):
        if self._link is not None:
            self.ask("acknowledge", tag=10**9)
        super().close()


@broken("QUE-10", base="sockets")
class AcknowledgesWhenItGoes(Twisted):
    kind = Clearing


class Sweeping(SocketLease):
    def acknowledge(self):
        self._consumer.ask("acknowledge", tag=10**9)


class Sweeper(SocketConsumer):
    def receive(self, limit, wait):
        lease = super().receive(limit, wait)
        if lease is not None:
            lease.__class__ = Sweeping
        return lease


@broken("QUE-11", base="sockets")
class AcknowledgesLaterOnes(Twisted):
    kind = Sweeper


class Deep(SocketConsumer):
    def depth(self):
        return 10**6


@broken("QUE-12", base="sockets")
class SaysAMillion(Twisted):
    kind = Deep


class Shallow(SocketConsumer):
    def depth(self):
        return 1


@broken("QUE-12", base="sockets")
class SaysOne(Twisted):
    kind = Shallow


@broken("QUE-13", base="sockets")
class OpensOneMore(SocketSource):
    def consumer(self, ctx, receiver):
        KEPT.append(super().consumer(ctx, receiver))
        return super().consumer(ctx, receiver)


class Raw(SocketConsumer):
    def ask(self, op, **facts):
        return self._link.ask(op, **facts)


@broken("QUE-14", base="sockets")
class RaisesWhatItMeets(Twisted):
    kind = Raw


class Headless(SocketConsumer):
    def _envelopes(self, messages):
        return super()._envelopes([{**message, "headers": []} for message in messages])


@broken("QUE-15", base="sockets")
class LosesHeaders(Twisted):
    kind = Headless


class Blind(SocketConsumer):
    room = 0

    def receive(self, limit, wait):
        return super().receive(limit, wait) if self.room else None


@broken("QUE-16", base="sockets")
class SeesOnlyWhatWasThere(Twisted):
    kind = Blind

    def consumer(self, ctx, receiver):
        consumer = super().consumer(ctx, receiver)
        consumer.room = consumer.depth()
        return consumer


class Boundless(SocketConsumer):
    def receive(self, limit, wait):
        return super().receive(evolve(limit, bytes=None), wait)


@broken("QUE-18", base="sockets")
class IgnoresBytes(Twisted):
    kind = Boundless


@broken("OPT-05", base="sockets", case={"wrong_credentials": {"password": "open barley"}})
class ChecksNothing(SocketSource):
    def check(self):
        pass


@broken("OPT-06", base="sockets")
class ShowsItsPassword(SocketSource):
    def __repr__(self):
        return f"SocketSource({self.port}, {self.password and self.password.reveal()})"


@broken("SHP-06", base="sockets")
class PrintsItsPassword(SocketSource):
    def consumer(self, ctx, receiver):
        sys.stderr.write(f"connecting with {self.password.reveal()}\n")
        sys.stderr.flush()
        return super().consumer(ctx, receiver)


@broken("SHP-06", base="sockets", side="sink")
class PrintsItsPasswordToo(SocketSink):
    def link(self):
        sys.stderr.write(f"connecting with {self.password.reveal()}\n")
        sys.stderr.flush()
        return super().link()


@broken("SHP-06")
@configured
class ShowsNoSecret(FolderSource):
    """Reads a folder, and could be given a password."""

    password: Secret | None = option(default=None, doc="Of the folder.")
