"""Questions to the cluster, many partitions to a request, retried while brokers move."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from penstock.contracts.errors import EphemeralReadError, PenstockError
from penstock_kafka.faults import kafka_error, passing, read_fault, refused, settings_fault
from penstock_kafka.patience import commit
from penstock_kafka.positions import Place
from penstock_kafka.settings import revealed
from penstock_kafka.source import KafkaSource
from penstock_kafka.where import Where
from penstock_kafka.who import WHO

T = TypeVar("T")
_STEP = 5.0
"""Seconds one request may take before it is sent again."""

_GLANCE = 0.1
_ABSENT = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)


class Cluster:
    """An admin client, and a consumer for commits once one is needed."""

    def __init__(self, source: KafkaSource) -> None:
        self._source = source
        self._consumer: Consumer | None = None
        self._refused: KafkaError | None = None
        self._answered = False
        self._settings = {
            # Else every setting of consumers draws a warning from the admin client.
            "log_level": "3",
            **revealed(source.kafka),
            "bootstrap.servers": source.servers,
            "client.id": source.client_id,
        }
        self._admin = self._client()
        self._isolation = IsolationLevel[source.isolation.upper()]

    def _client(self) -> AdminClient:
        try:
            return AdminClient({**self._settings, "error_cb": self._hear})
        except KafkaException as error:
            raise settings_fault(error) from None

    def _hear(self, error: KafkaError) -> None:
        if refused(error):
            self._refused = error

    def names(self) -> list[str]:
        """All topics, the broker's own left out."""
        found = self._ask("listing topics", lambda: self._admin.list_topics(timeout=1.0))
        return sorted(name for name in found.topics if not name.startswith("__"))

    def describe(self, topics: list[str]) -> dict[str, tuple[int, str]]:
        """How many partitions each topic has that exists, and the id it got when it was made."""
        if not topics:
            return {}
        # Asking for metadata instead would make a missing topic where the broker allows it.
        found = self._ask(
            f"asking for {', '.join(topics)}",
            lambda: self._done(self._admin.describe_topics(TopicCollection(topics)), _ABSENT),
        )
        return {name: (len(topic.partitions), str(topic.topic_id)) for name, topic in found.items()}

    def ends(self, places: Iterable[Place]) -> dict[Place, int]:
        """Where each partition ends for a reader of the chosen isolation."""
        return self._offsets({place: OffsetSpec.latest() for place in places})

    def resolve(self, wanted: Mapping[Place, Where]) -> dict[Place, int]:
        """The offsets that places stand for; a moment after the last record is the end."""
        specs = {}
        found = {}
        for place, at in wanted.items():
            if at.kind == "offset":
                found[place] = at.value
            elif at.kind == "moment":
                specs[place] = OffsetSpec.for_timestamp(at.value)
            else:
                latest = at.kind == "latest"
                specs[place] = OffsetSpec.latest() if latest else OffsetSpec.earliest()
        asked = self._offsets(specs)
        late = [place for place, offset in asked.items() if offset < 0]
        asked.update(self.ends(late) if late else {})
        return {place: found.get(place, asked.get(place, 0)) for place in wanted}

    def _offsets(self, specs: dict[Place, OffsetSpec]) -> dict[Place, int]:
        if not specs:
            return {}
        request = {TopicPartition(t, p): spec for (t, p), spec in specs.items()}
        answers = self._ask(
            "asking for offsets",
            lambda: _known(
                self._done(self._admin.list_offsets(request, isolation_level=self._isolation))
            ),
        )
        return {(tp.topic, tp.partition): answer.offset for tp, answer in answers.items()}

    def commit(self, group: str, offsets: list[TopicPartition]) -> None:
        """Commit offsets of a group that nobody is a member of."""
        if self._consumer is None:
            settings = {"group.id": group, "enable.auto.commit": False, **self._settings}
            self._consumer = Consumer(settings)
        commit(self._consumer, offsets, self._source.timeout)

    def _ask(self, doing: str, question: Callable[[], T]) -> T:
        deadline = time.monotonic() + self._source.timeout
        while True:
            try:
                found = question()
            except KafkaException as error:
                lost: KafkaException | None = error
                again = passing(kafka_error(error))
                if kafka_error(error).code() == KafkaError.FENCED_LEADER_EPOCH:
                    # Its metadata is from before a broker's restart, and it keeps that for minutes.
                    self._admin = self._client()
            except TimeoutError:
                lost, again = None, True
            else:
                self._answered, self._refused = True, None
                return found
            if self._hopeless() or not again or time.monotonic() > deadline:
                raise self._fault(doing, lost) from None
            time.sleep(0.1)

    def _hopeless(self) -> bool:
        self._admin.poll(0)  # an admin client tells its errors only to those who ask
        # A server that took these credentials before and is dying now breaks handshakes as well.
        return self._refused is not None and not self._answered

    def _fault(self, doing: str, error: KafkaException | None) -> PenstockError:
        if self._hopeless() and self._refused is not None:
            return read_fault(doing, self._refused)
        if error is None:
            said = "" if self._refused is None else f"; {self._refused.str()}"
            return EphemeralReadError(
                f"{doing}: the cluster does not answer",
                who=WHO,
                got=f"no answer within {self._source.timeout:g} s{said}",
                fix="see that the servers run and can be reached",
            )
        return read_fault(doing, error)

    def _done(self, futures: Mapping[Any, Future[T]], without: Container[int] = ()) -> dict[Any, T]:
        """What they bring; a refusal ends the wait, because librdkafka goes on trying.

        Those that fail with a code in `without` are left out.
        """
        deadline = time.monotonic() + min(2 * _STEP, self._source.timeout)
        found = {}
        for key, future in futures.items():
            while key not in found:
                try:
                    found[key] = future.result(timeout=_GLANCE)
                except KafkaException as error:
                    if kafka_error(error).code() not in without:
                        raise
                    break
                except TimeoutError:
                    if self._hopeless() or time.monotonic() > deadline:
                        raise
        return found

    def close(self) -> None:
        """Free the clients' threads and sockets."""
        if self._consumer is not None:
            self._consumer.close()
        self._admin = None


def _known(answers: dict[Any, Any]) -> dict[Any, Any]:
    """Refuse an answer that is none: a broker that just came back gives them without an error."""
    if any(answer.offset == OFFSET_INVALID for answer in answers.values()):
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    return answers
