"""Asking again while a coordinator moves, loads or is being chosen."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from penstock_kafka.faults import kafka_error

T = TypeVar("T")
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
_MOVING = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._WAIT_COORD,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
}


def patiently(ask: Callable[[float], T], seconds: float) -> T:
    """What `ask` returns; it is asked again, at longer and longer intervals, while that may help.

    Args:
        ask: Takes the seconds that are left. It must do no harm when it is called again.
        seconds: For how long; then the last error is raised.

    Raises:
        KafkaException: asking again does not help, or did not in time.
    """
    deadline = time.monotonic() + seconds
    pause = FIRST_PAUSE
    while True:
        try:
            return ask(max(0.1, deadline - time.monotonic()))
        except KafkaException as error:
            found = kafka_error(error)
            ended = found.fatal() or found.txn_requires_abort()
            again = not ended and (found.retriable() or found.code() in _MOVING)
            if not again or time.monotonic() + pause > deadline:
                raise
        # Many tasks ask the same new coordinator: not all at the same moment.
        time.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(2 * pause, LONGEST_PAUSE)


def commit(member: Consumer, offsets: list[TopicPartition], seconds: float) -> None:
    """Commit offsets of the group of a client that has not joined it.

    Raises:
        KafkaException: the coordinator refuses one, or was not found in time.
    """

    def ask(left: float) -> None:
        for place in member.commit(offsets=offsets, asynchronous=False):
            if place.error is not None:
                raise KafkaException(place.error)

    patiently(ask, seconds)
