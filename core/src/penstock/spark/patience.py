"""What is ephemeral is tried again, with growing pauses and an end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from pyspark.errors import PySparkException

from penstock.contracts.errors import PenstockError
from penstock.spark.failures import from_spark
from penstock.spark.queues.backoff import Backoff

T = TypeVar("T")

RETRY_FOR = 600.0
"""Seconds for which a lost end is looked for, as for queues (`retry_for`)."""

log = logging.getLogger("penstock")


def patiently(
    call: Callable[[], T],
    *,
    going: Callable[[], bool] = lambda: True,
    within: float = RETRY_FOR,
) -> T:
    """The result of a call that is made again while what it raises is ephemeral.

    Args:
        call: What a source or sink does; it may be done again.
        going: Asked before each pause; False gives up.
        within: Seconds of failing after which to give up.
    """
    backoff = Backoff(within)
    while True:
        try:
            return call()
        except (PenstockError, PySparkException) as error:
            known = error if isinstance(error, PenstockError) else from_spark(error)
            pause = backoff.pause() if known.ephemeral and going() else None
            if pause is None:
                raise
            log.warning("trying again in %.1f s: %s", pause, known)
            time.sleep(pause)
