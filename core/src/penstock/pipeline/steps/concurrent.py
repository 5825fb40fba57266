"""`concurrent_map`: for functions that wait on I/O, lanes below the partition."""

from __future__ import annotations

import zlib
from typing import Any, ClassVar

import pyarrow as pa

from penstock.contracts import Type, at_least, connector, option
from penstock.contracts.errors import SchemaError
from penstock.pipeline.functions import Function
from penstock.pipeline.graph import Policy
from penstock.pipeline.kernels import Failure, Kernel, each
from penstock.pipeline.records import values
from penstock.pipeline.steps.perrecord import MapKernel, PerRecord, returned
from penstock.pipeline.work import Work


def lane_of(key: object, lanes: int) -> int:
    """The lane of a key: the same in every process."""
    data = key if isinstance(key, bytes) else repr(key).encode()
    return zlib.crc32(data) % lanes


class LanesKernel(MapKernel):
    """Deals the records of a batch to lanes; each lane works in order, lanes side by side."""

    def __init__(self, step: ConcurrentMap, schema: pa.Schema, gives: pa.Schema) -> None:
        super().__init__(step, schema, gives)
        self._lanes = step.lanes
        self._key = step.key

    def call(self, records: list[Any], work: Work, policy: Policy) -> Any:
        """Results in the records' order, whatever lane they came from."""
        from concurrent.futures import ThreadPoolExecutor  # not needed to declare and explain

        lanes: list[list[int]] = [[] for _ in range(min(self._lanes, max(len(records), 1)))]
        for n, key in enumerate(self._keys(work)):
            lanes[n % len(lanes) if key is None else lane_of(key, len(lanes))].append(n)
        busy = [lane for lane in lanes if lane]
        results: list[Any] = [None] * len(records)
        failures: dict[int, Failure] = {}
        retried = 0
        with ThreadPoolExecutor(max(len(busy), 1), thread_name_prefix="lane") as pool:
            done = pool.map(
                lambda lane: each(self._function, [records[n] for n in lane], policy), busy
            )
            for lane, (found, failed, more) in zip(busy, done, strict=True):
                for at, n in enumerate(lane):
                    results[n] = found[at]
                failures |= {lane[at]: failure for at, failure in failed.items()}
                retried += more
        return results, failures, retried

    def _keys(self, work: Work) -> list[Any]:
        if self._key is None:
            return values(work.pen().field("key"))
        return values(work.payload.column(self._key))


@connector
class ConcurrentMap(PerRecord):
    """One record in, one out, many at a time; records of one key keep their order."""

    main: ClassVar[str | None] = "function"

    function: Function = option(doc="Gets a record, returns a record; may wait on I/O.")
    lanes: int = option(
        default=8, doc="How many records of a partition are worked on at once.", check=at_least(1)
    )
    key: str | None = option(
        default=None,
        doc="A column: its equal values share a lane. By default the record's key, and records "
        "without one go to the lanes in turn.",
    )
    schema: str | None = option(
        default=None, doc="The columns of what the function returns, as for map."
    )
    meta: bool = option(default=False, doc="Records also hold `event_time` and `_pen`.")
    deterministic: bool = option(
        default=False, doc="True if the same record always gives the same result."
    )

    def gives(self, input: Type) -> Type:
        """Declared, annotated, or what it got."""
        return returned(self, input)

    def kernel(self, schema: pa.Schema, gives: pa.Schema) -> Kernel:
        """Threads for the time of a batch."""
        if self.key is not None and self.key not in schema.names:
            raise SchemaError(
                f"concurrent_map has no column {self.key} to take its key from",
                expected="one of " + ", ".join(schema.names),
                got=self.key,
            )
        return LanesKernel(self, schema, gives)
