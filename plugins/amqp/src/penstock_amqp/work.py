"""Long-running work over two queues: items one way, progress and answers back.

An answer needs nothing from here: a record keeps its headers on its way through a pipeline, the
correlation id among them. `Task` is for work that also tells how far it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from attrs import field, frozen

from penstock.contracts import Batch, Context
from penstock.contracts.envelope import ENVELOPE
from penstock_amqp.messages import PREFIX
from penstock_amqp.sink import AmqpSink

CORRELATION = f"{PREFIX}correlation_id"

Tell = Callable[[str], None]


@frozen
class Task:
    """A function over one work item, as a step: `.map(Task(render, results), meta=True)`.

    The function gets the item's bytes and `tell`, and returns the answer's bytes. `tell(text)`
    publishes a message with the item's correlation id, the text as its body and the property
    type `progress`; when it returns, the broker has it. What the function raises is treated as in
    any step.

    Args:
        function: the work; picklable.
        results: where progress goes: the sink that also gets the answers.
    """

    function: Callable[[bytes, Tell], bytes]
    results: AmqpSink = field()

    def __call__(self, record: dict[str, Any]) -> dict[str, Any]:
        name = correlation(record["_pen"])
        steps = itertools.count(1)

        def tell(text: str) -> None:
            self._publish(name, f"{name}/progress/{next(steps)}", text)

        return {"value": self.function(record["value"], tell)}

    def _publish(self, name: str, message: str, text: str) -> None:
        headers = {CORRELATION: name, f"{PREFIX}type": "progress"}
        listed = [{"key": key, "value": value.encode()} for key, value in headers.items()]
        row = {**dict.fromkeys(ENVELOPE.names), "value": text.encode(), "id": message}
        rows = pa.RecordBatch.from_pylist([{**row, "headers": listed}], schema=ENVELOPE)
        # Minutes pass between two of these: a connection each is cheaper than one kept alive.
        writer = self.results.open(Batch(Context(node="progress"), 0), 0, 0, ENVELOPE)
        try:
            writer.write(rows)
            writer.close()
        except BaseException:
            writer.abort()
            raise


def correlation(meta: dict[str, Any]) -> str:
    """The correlation id of an item or an answer: its own, else the message's id."""
    for header in meta["headers"] or []:
        if header["key"] == CORRELATION and header["value"] is not None:
            return str(header["value"].decode())
    return str(meta["id"] or "")
