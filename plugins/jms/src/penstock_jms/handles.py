"""Many messages in one call into Java, without any Java code of our own.

A call from Python into Java costs microseconds, and a message has a dozen fields. So the loop
runs on Java's side: method handles of the JMS interfaces, composed and wrapped as the functional
interfaces that Java's streams take. One call then receives a thousand messages, or reads one
field of all of them into one buffer.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from typing import Any

import numpy as np
import pyarrow as pa

_AGAIN = 2**20
"""Bytes that are set aside at once for what may be as much as the last time, at most."""


class Handles:
    """Composed method handles over one namespace of JMS, as one class loader sees it.

    Args:
        loader: Of the client library.
        namespace: `jakarta.jms` or `javax.jms`.
    """

    def __init__(self, loader: Any, namespace: str) -> None:
        import jpype

        self._jpype = jpype
        self._loader = loader
        self.namespace = namespace
        self._mh = self.java("java.lang.invoke.MethodHandles")
        self._type = self.java("java.lang.invoke.MethodType")
        self._proxies = self.java("java.lang.invoke.MethodHandleProxies")
        self._lookup = self._mh.publicLookup()
        self._ints = self.java("java.util.stream.IntStream")
        self._collectors = self.java("java.util.stream.Collectors")
        self._array_list = self.java("java.util.ArrayList")
        self._buffer = self.java("java.io.ByteArrayOutputStream")

        self.object = self.java("java.lang.Object").class_
        self.string = self.java("java.lang.String").class_
        self.bytes = jpype.JArray(jpype.JByte).class_
        self.int = jpype.JInt.class_
        self.long = jpype.JLong.class_
        self.boolean = jpype.JBoolean.class_
        self._void = self.java("java.lang.Void").TYPE
        self.message = self.java(f"{namespace}.Message").class_

        self._is_null = self._static("java.util.Objects", "isNull", self.boolean, self.object)
        # Java's own function: one made of a handle costs a call through a proxy each time.
        self._present = self.java("java.util.function.Predicate").isEqual(None).negate()
        self._length = self._as(
            "ToIntFunction", self._unless_null(jpype.JInt(-1), self.int, self._lengths())
        )
        self._append = self._virtual(self._buffer.class_, "writeBytes", self._void, self.bytes)
        self._utf8 = self._unless_null(None, self.bytes, self._encoder())
        value_of = self._static("java.lang.String", "valueOf", self.string, self.object)
        self._text = self._unless_null(None, self.string, value_of)

        # Senders choose the names of properties, so what is kept for them is bounded.
        self.value_text = lru_cache(maxsize=256)(self._make_value_text)
        self.value_class = lru_cache(maxsize=256)(self._make_value_class)

    def java(self, name: str) -> Any:
        """A class by its full name."""
        return self._jpype.JClass(name, loader=self._loader)

    def receiver(self, consumer: Any, linger: int) -> Any:
        """What `take` calls for each next message of a consumer, waiting `linger` ms for it."""
        kind = self.java(f"{self.namespace}.MessageConsumer").class_
        receive = self._virtual(kind, "receive", self.message, self.long).bindTo(consumer)
        one = self._mh.insertArguments(receive, 0, self._jpype.JLong(linger))
        return self._as("IntFunction", self._mh.dropArguments(one, 0, self.int))

    def take(self, receiver: Any, count: int) -> Any:
        """Up to `count` messages, fewer if none comes within the receiver's wait."""
        # A range is ordered: only of an ordered stream is takeWhile bound to keep all it saw.
        taken = self._ints.range(0, count).mapToObj(receiver).takeWhile(self._present)
        return taken.collect(self._collectors.toList())

    def one(self, message: Any) -> Any:
        """A list of one message."""
        out = self._array_list(1)
        out.add(message)
        return out

    def chosen(self, messages: Any, rows: np.ndarray) -> Any:
        """Some of the messages, by index."""
        out = self._array_list(len(rows))
        for row in rows.tolist():
            out.add(messages.get(row))
        return out

    def texts(self, messages: Any, function: Any) -> pa.BinaryArray:
        """What `function` makes of each message: UTF-8 bytes, or null."""
        found = messages.stream().map(function).collect(self._collectors.toList())
        lengths = np.asarray(found.stream().mapToInt(self._length).toArray())
        buffer = self._buffer(max(int(lengths[lengths > 0].sum()), 1))
        appending = self._as("Consumer", self._append.bindTo(buffer))
        found.stream().filter(self._present).forEach(appending)
        return binary(lengths, bytes(buffer.toByteArray()))

    def _make_value_text(self, name: str) -> Any:
        """For `texts`: the value of a property as text."""
        return self._as("Function", self.property_text(name))

    def _make_value_class(self, name: str) -> Any:
        """For `texts`: the simple class name of a property's value."""
        kind = self.java("java.lang.Class").class_
        of = self._virtual(self.object, "getClass", kind)
        simple = self.then(of, self._virtual(kind, "getSimpleName", self.string))
        named = self._unless_null(None, self.string, simple)
        return self._as("Function", self.then(self.then(self._property(name), named), self._utf8))

    # What follows gives handles, to be composed; those of a message take it alone.

    def number_of(self, name: str, kind: str) -> Any:
        """The getter of a numeric or boolean header, as a long."""
        returned = {"long": self.long, "int": self.int, "boolean": self.boolean}[kind]
        getter = self._virtual(self.message, name, returned)
        return self._mh.explicitCastArguments(getter, self._signature(self.long, self.message))

    def has_reply_to(self) -> Any:
        """1 if an answer goes somewhere, else 0."""
        kind = self.java(f"{self.namespace}.Destination").class_
        there = self._static("java.util.Objects", "nonNull", self.boolean, self.object)
        asked = self.then(self._virtual(self.message, "getJMSReplyTo", kind), there)
        return self._mh.explicitCastArguments(asked, self._signature(self.long, self.message))

    def text_of(self, name: str, interface: str = "Message") -> Any:
        """The getter of a String header or body, as UTF-8 bytes."""
        kind = self.java(f"{self.namespace}.{interface}").class_
        return self._of_message(self.then(self._virtual(kind, name, self.string), self._utf8))

    def property_names(self) -> Any:
        """The names of a message's properties, one per line."""
        enumeration = self.java("java.util.Enumeration").class_
        names = self._virtual(self.message, "getPropertyNames", enumeration)
        array_list = self._array_list.class_
        listed = self._static("java.util.Collections", "list", array_list, enumeration)
        sequence = self.java("java.lang.CharSequence").class_
        iterable = self.java("java.lang.Iterable").class_
        join = self._static("java.lang.String", "join", self.string, sequence, iterable)
        lines = self._mh.insertArguments(join, 0, "\n")
        for step in (listed, lines, self._utf8):
            names = self.then(names, step)
        return names

    def property_text(self, name: str) -> Any:
        """The value of a property as UTF-8 bytes."""
        return self.then(self.then(self._property(name), self._text), self._utf8)

    def body_bytes(self) -> Any:
        """The body of a bytes message: an array of its length, filled, returned."""
        kind = self.java(f"{self.namespace}.BytesMessage").class_
        length = self._virtual(kind, "getBodyLength", self.long)
        to_int = self._type.methodType(self.int, kind)
        size = self._mh.explicitCastArguments(length, to_int)
        empty = self.then(size, self._mh.arrayConstructor(self.bytes))
        read = self._virtual(kind, "readBytes", self.int, self.bytes)
        swapped = self._signature(self.int, self.bytes, kind)
        count = self._mh.permuteArguments(read, swapped, 1, 0)
        ignoring = count.asType(self._signature(self._void, self.bytes, kind))
        whole = self._mh.dropArguments(self._mh.identity(self.bytes), 1, kind)
        filled = self._mh.foldArguments(whole, ignoring)
        return self._of_message(self._mh.foldArguments(filled, empty))

    def nothing(self) -> Any:
        """No bytes, whatever the message."""
        return self._mh.dropArguments(self._mh.constant(self.bytes, None), 0, self.message)

    def numbers(self, count: int) -> tuple[Any, Any]:
        """A buffer of longs, and what puts one into it."""
        kind = self.java("java.nio.LongBuffer")
        buffer = kind.allocate(count)
        put = self._virtual(kind.class_, "put", kind.class_, self.long).bindTo(buffer)
        return buffer, put.asType(self._signature(self._void, self.long))

    def output(self) -> Output:
        """A place that bytes are appended to."""
        return Output(self.java("java.util.concurrent.atomic.AtomicReference")(), self._buffer)

    def stored(self, put: Any, output: Output) -> Any:
        """Puts the length of bytes, -1 for null, and appends them to an output."""
        get = self._virtual(output.holder.getClass(), "get", self.object).bindTo(output.holder)
        current = get.asType(self._signature(self._buffer.class_))
        appended = self._mh.foldArguments(self._append, current)
        length = self._mh.explicitCastArguments(
            self._lengths(), self._signature(self.long, self.bytes)
        )
        there = self._mh.foldArguments(appended, self.then(length, put))
        absent = self._mh.dropArguments(self._putting(put, -1), 0, self.bytes)
        is_null = self._is_null.asType(self._signature(self.boolean, self.bytes))
        return self._mh.guardWithTest(is_null, absent, there)

    def putting(self, put: Any, number: int) -> Any:
        """Puts this number, whatever the message."""
        return self._mh.dropArguments(self._putting(put, number), 0, self.message)

    def both(self, first: Any, second: Any) -> Any:
        """One after the other, of the same message."""
        return self._mh.foldArguments(second, first)

    def where(self, interface: str, yes: Any, no: Any) -> Any:
        """`yes` of a message that is one of these, `no` of any other."""
        kind = self.java(f"{self.namespace}.{interface}").class_
        is_one = self._virtual(kind.getClass(), "isInstance", self.boolean, self.object)
        test = is_one.bindTo(kind).asType(self._signature(self.boolean, self.message))
        return self._mh.guardWithTest(test, yes, no)

    def consumer(self, steps: list[Any]) -> Any:
        """All steps, in order, as what `forEach` takes."""
        return self._as("Consumer", reduce(self.both, steps))

    def _putting(self, put: Any, number: int) -> Any:
        return self._mh.insertArguments(put, 0, self._jpype.JLong(number))

    def _of_message(self, handle: Any) -> Any:
        """The same of a `Message`, which must be of the handle's own interface."""
        return handle.asType(self._signature(handle.type().returnType(), self.message))

    def _property(self, name: str) -> Any:
        getter = self._virtual(self.message, "getObjectProperty", self.object, self.string)
        return self._mh.insertArguments(getter, 1, name)

    def _encoder(self) -> Any:
        charset = self.java("java.nio.charset.Charset").class_
        encode = self._virtual(self.string, "getBytes", self.bytes, charset)
        utf8 = self.java("java.nio.charset.StandardCharsets").UTF_8
        return self._mh.insertArguments(encode, 1, utf8)

    def _lengths(self) -> Any:
        return self._mh.arrayLength(self.bytes)

    def _unless_null(self, instead: Any, returned: Any, function: Any) -> Any:
        """`function` of an object, or `instead` of null."""
        generic = function.asType(self._signature(returned, self.object))
        constant = self._mh.constant(returned, instead)
        fallback = self._mh.dropArguments(constant, 0, self.object)
        return self._mh.guardWithTest(self._is_null, fallback, generic)

    def then(self, first: Any, second: Any) -> Any:
        """`second` of what `first` returns."""
        takes = self._signature(second.type().returnType(), first.type().returnType())
        return self._mh.filterReturnValue(first, second.asType(takes))

    def _signature(self, returned: Any, *taken: Any) -> Any:
        return self._type.methodType(
            returned, self._jpype.JArray(self.java("java.lang.Class"))(taken)
        )

    def _virtual(self, kind: Any, name: str, returned: Any, *taken: Any) -> Any:
        return self._lookup.findVirtual(kind, name, self._signature(returned, *taken))

    def _static(self, kind: str, name: str, returned: Any, *taken: Any) -> Any:
        signature = self._signature(returned, *taken)
        return self._lookup.findStatic(self.java(kind).class_, name, signature)

    def _as(self, interface: str, handle: Any) -> Any:
        """A handle as a functional interface of `java.util.function`."""
        kind = self.java(f"java.util.function.{interface}").class_
        return self._proxies.asInterfaceInstance(kind, handle)


class Output:
    """Bytes from many messages, one behind the other. The memory is new for each time."""

    def __init__(self, holder: Any, kind: Any) -> None:
        self.holder = holder
        self._kind = kind
        self._last = 0

    def begin(self) -> None:
        """Nothing is there yet."""
        self.holder.set(self._kind(max(32, min(self._last, _AGAIN))))

    def taken(self) -> bytes:
        """All that was appended."""
        found = bytes(self.holder.getAndSet(None).toByteArray())
        self._last = len(found)
        return found


def binary(lengths: np.ndarray, data: bytes) -> pa.BinaryArray:
    """Values one behind the other as an array; a length of -1 is null."""
    there = lengths >= 0
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(np.where(there, lengths, 0), out=offsets[1:])
    valid = None if there.all() else pa.array(there).buffers()[1]
    parts = [valid, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), parts)


@lru_cache(maxsize=32)
def handles(loader: Any, namespace: str) -> Handles:
    """The handles of a class loader, made once per process."""
    return Handles(loader, namespace)
