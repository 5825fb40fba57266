"""All that every message has, read by one pass over many messages.

A pass of Java's streams for each field of a message costs several times what the getters do, and
until Java has compiled it ten times as much: a new reader would be busy with that for its first
tens of thousands of messages. So the getters are composed into one function, which leaves numbers
and lengths in one buffer and the bytes of each text in one of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from attrs import frozen

from penstock_jms.bodies import KINDS
from penstock_jms.handles import Handles, binary

BODY_KINDS = (*KINDS, "none")
"""What `Columns.kinds` counts: the kinds of messages, and those without a body."""

_NUMBERS = (
    ("getJMSTimestamp", "long"),
    ("getJMSExpiration", "long"),
    ("getJMSPriority", "int"),
    ("getJMSDeliveryMode", "int"),
    ("getJMSRedelivered", "boolean"),
)
_TEXTS = ("getJMSMessageID", "getJMSCorrelationID", "getJMSType", "getPropertyNames")
_COUNT = "JMSXDeliveryCount"
_LEAST = 1000
"""Messages that there is room for at once: the first leases are small and grow."""


@frozen(eq=False)
class Columns:
    """What many messages hold, column by column.

    Attributes:
        messages: The messages, for what is not here.
        numbers: By getter. `getJMSReplyTo`: 1 where there is one.
        texts: UTF-8 by getter, null where there is none. `getPropertyNames`: one per line.
        properties: Values as UTF-8 by name, of the count of deliveries and of those asked for.
        kinds: Indices into `BODY_KINDS`.
        bodies: Of text and bytes messages; null for all others.
    """

    messages: Any
    numbers: dict[str, np.ndarray]
    texts: dict[str, pa.BinaryArray]
    properties: dict[str, pa.BinaryArray]
    kinds: np.ndarray
    bodies: pa.BinaryArray

    def only(self, use: Handles, rows: np.ndarray) -> Columns:
        """Some of the messages, by index."""
        at = pa.array(rows)
        return Columns(
            use.chosen(self.messages, rows),
            {name: numbers[rows] for name, numbers in self.numbers.items()},
            {name: texts.take(at) for name, texts in self.texts.items()},
            {name: texts.take(at) for name, texts in self.properties.items()},
            self.kinds[rows],
            self.bodies.take(at),
        )


class Pass:
    """Reads the columns of messages, again and again; of one thread.

    Args:
        use: The method handles of the client library.
        properties: Properties to read beside the count of deliveries.
    """

    def __init__(self, use: Handles, properties: Sequence[str] = ()) -> None:
        self._use = use
        self._properties = tuple(dict.fromkeys((_COUNT, *properties)))
        texts = len(_TEXTS) + len(self._properties) + 1
        self._width = len(_NUMBERS) + 1 + texts + 1
        self._outputs = [use.output() for _ in range(texts)]
        self._capacity = 0

    def read(self, messages: Any) -> Columns:
        """The columns of a list of messages; a body can be read only once."""
        count = messages.size()
        if count > self._capacity:
            self._compose(max(count, _LEAST))
        self._numbers.clear()
        for output in self._outputs:
            output.begin()
        messages.forEach(self._each)
        found = np.asarray(self._numbers.array())[: count * self._width]
        columns = iter(found.reshape(count, self._width).T)
        numbers = {name: next(columns) for name, _ in _NUMBERS}
        numbers["getJMSReplyTo"] = next(columns)
        kinds = next(columns)
        taken = (binary(next(columns), output.taken()) for output in self._outputs)
        texts = {name: next(taken) for name in _TEXTS}
        properties = {name: next(taken) for name in self._properties}
        return Columns(messages, numbers, texts, properties, kinds, next(taken))

    def _compose(self, count: int) -> None:
        """The one function, over a buffer for so many messages."""
        use = self._use
        self._capacity = count
        self._numbers, put = use.numbers(count * self._width)
        steps = [use.then(use.number_of(name, kind), put) for name, kind in _NUMBERS]
        steps.append(use.then(use.has_reply_to(), put))
        steps.append(self._by_kind(lambda kind: use.putting(put, BODY_KINDS.index(kind))))
        bodies = {"text": use.text_of("getText", "TextMessage"), "bytes": use.body_bytes()}
        getters = [use.text_of(name) for name in _TEXTS[:-1]]
        getters += [use.property_names(), *map(use.property_text, self._properties)]
        # Opening an object message would run the sender's choice of code: it stays closed.
        getters.append(self._by_kind(lambda kind: bodies.get(kind, use.nothing())))
        for getter, output in zip(getters, self._outputs, strict=True):
            steps.append(use.then(getter, use.stored(put, output)))
        self._each = use.consumer(steps)

    def _by_kind(self, of: Callable[[str], Any]) -> Any:
        """What to do with a message, by its kind."""
        made = of(BODY_KINDS[-1])
        for kind in reversed(KINDS):
            made = self._use.where(f"{kind.capitalize()}Message", of(kind), made)
        return made
