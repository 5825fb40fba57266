"""The Protobuf coder: where descriptors come from, and the framing."""

from __future__ import annotations

import base64
import binascii
import importlib
from collections.abc import Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import attrs
import numpy as np
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from penstock.coders.cursors import Buffer, varints, zigzag
from penstock.coders.framing import HEADER, registry_ids
from penstock.coders.groups import by_key, encoded, grouped, merged, refused
from penstock.coders.isolate import isolate
from penstock.coders.parts import assemble, present, under
from penstock.coders.protobuf import reference
from penstock.coders.protobuf.decode import Decoding
from penstock.coders.protobuf.encode import encode
from penstock.coders.protobuf.types import Message, plan
from penstock.coders.registry import (
    Asking,
    Import,
    Registry,
    RegistryError,
    Strategy,
    Written,
    hidden,
    schema_error,
    subject_name,
)
from penstock.coders.writing import signed_varints
from penstock.contracts.coder import Coder, Decoded, Encoded, RowError
from penstock.contracts.errors import OptionError, SchemaError
from penstock.contracts.options import connector, option
from penstock.contracts.secret import Secret

AT_ONCE = 16_384
MAX_INDEXES = 32
_STANDARD = ("google/protobuf/", "google/type/", "confluent/")


@connector
class ProtobufCoder(Coder):
    """Protobuf messages: alone, or behind a registry's schema id and the message's index path.

    An absent field is null where Protobuf tells absence from a default, else the default.
    """

    _schema: Any = option(
        default=None,
        doc="A descriptor set's file (`protoc --include_imports --descriptor_set_out`), a compiled "
        "message as `module:Message`, or the message class itself.",
    )
    message: str | None = option(
        default=None, doc="Full name of the message, for a descriptor set or a registry."
    )
    framing: Literal["none", "registry"] = option(
        default="none", doc="What stands before a message."
    )
    registry: dict[str, str | Secret] = option(
        prefix="registry.", doc="The registry's client: registry.url, ..."
    )
    subject: str | None = option(default=None, doc="The registry's subject.")
    version: int | None = option(default=None, doc="The subject's version to read with.")
    topic: str | None = option(default=None, doc="Names the subject, by the strategy.")
    strategy: Strategy = option(default="topic", doc="How topic and message name the subject.")
    register: bool = option(
        default=False, doc="Register the schema if the subject does not have it yet."
    )
    only: tuple[str, ...] | None = attrs.field(default=None, kw_only=True)

    def settle(self) -> None:
        object.__setattr__(self, "registry", hidden(self.registry))
        if self.framing == "registry":
            Registry(self.registry)
        elif self._schema is None:
            raise OptionError(
                "the option schema is missing",
                expected="a descriptor set's file, a compiled message, or framing=registry",
            )

    @cached_property
    def registered(self) -> tuple[int, Written] | None:
        """The registry's schema where none was given. Pickled, so that all processes agree."""
        if self._schema is not None:
            return None
        try:
            subject = self.subject or subject_name(self.strategy, self.topic, self.message)
            return Registry(self.registry).by_version(subject, self.version, "serialized")
        except RegistryError as error:
            raise schema_error(error) from None

    @cached_property
    def found(self) -> tuple[bytes, str]:
        """The descriptors and the message's name. Kept, and pickled, so that all agree."""
        if self.registered is None:
            return _given(self._schema, self.message)
        return _written_set(self.registered[1]), self.message or ""

    def _plan(self) -> Message:
        return _narrowed(_plan(*self.found), self.only)

    def schema(self) -> pa.Schema:
        return pa.schema(list(self._plan().type))

    def narrowed(self, columns: Sequence[str]) -> ProtobufCoder:
        whole: Any = self
        made: ProtobufCoder = attrs.evolve(whole, only=tuple(columns))
        made.__dict__.update(found=self.found, registered=self.registered)
        return made

    def decode(self, values: pa.Array) -> Decoded:
        kept, rows = present(values)
        outer = Decoded(pa.RecordBatch.from_arrays([kept], names=["value"]), rows)
        if self.framing == "none":
            return under(outer, self._messages(Buffer(kept)))
        schema = self.schema()
        groups, errors = registry_ids(kept)
        one = partial(self._framed, Asking(Registry(self.registry)))
        return under(outer, grouped(kept, groups, schema, one, errors))

    def _framed(self, asking: Asking, number: int, values: pa.Array) -> Decoded:
        """Messages of one schema id; each says by an index path which message it is."""
        schema = self.schema()
        try:
            written = asking.by_id(number, "serialized")
            names = _names(_written_set(written), _last_file(_written_set(written)))
        except (RegistryError, SchemaError) as error:
            return refused(schema, len(values), error)
        buffer = Buffer(values, HEADER)
        _, mine = self.found
        mine = mine or _plan(*self.found).name
        paths = _skip_paths(buffer)
        for row, path in enumerate(paths):
            if names.get(path) != mine:
                other = names.get(path, "none that its schema has")
                buffer.blame(np.array([row]), f"it is another message than {mine}: {other}")
        return self._messages(buffer)

    def _messages(self, buffer: Buffer) -> Decoded:
        count = len(buffer.starts)
        if count <= AT_ONCE:
            return self._chunk(buffer)
        parts = []
        for start in range(0, count, AT_ONCE):
            stop = min(start + AT_ONCE, count)
            parts.append((np.arange(start, stop), self._chunk(buffer.part(start, stop))))
        return merged(parts, self.schema(), count, ())

    def _chunk(self, buffer: Buffer) -> Decoded:
        message = self._plan()
        schema = pa.schema(list(message.type))
        columns = Decoding(buffer).columns(message)
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        slow = buffer.left & ~buffer.bad
        if not buffer.bad.any() and not slow.any():
            return Decoded(batch)
        errors = [RowError(row=row, message=buffer.faults[row]) for row in sorted(buffer.faults)]
        good = np.flatnonzero(~(buffer.bad | slow))
        parts = [(good, Decoded(batch.take(pa.array(good))))]
        if slow.any():
            which = np.flatnonzero(slow)
            raw = [
                buffer.data[a:b].tobytes()
                for a, b in zip(buffer.starts[which], buffer.ends[which], strict=True)
            ]
            cls = _class(*self.found)
            runs, bad = isolate(len(raw), lambda a, b: reference.decode(raw[a:b], cls, message))
            parts.append((which, assemble(runs, bad, None, schema, len(raw))))
        return merged(parts, schema, len(buffer.starts), errors)

    def encode(self, rows: pa.RecordBatch) -> Encoded:
        return encoded(rows, pa.schema(list(_plan(*self.found).type)), self._written)

    def _written(self, rows: pa.RecordBatch) -> Encoded:
        message = _plan(*self.found)
        if self.framing == "none":
            return encode(rows, message)
        files, _ = self.found
        name = message.name
        file = _file_of(files, name)
        try:
            number = self.registered[0] if self.registered else self._own_id(name, files, file)
        except RegistryError as error:
            nothing = pa.nulls(rows.num_rows, pa.binary())
            return Encoded(nothing, refused(rows.schema, rows.num_rows, error).errors)
        path = next(p for p, each in _names(files, file.name).items() if each == name)
        return encode(rows, message, b"\x00" + number.to_bytes(4, "big") + _path_bytes(path))

    def _own_id(self, name: str, files: bytes, file: Any) -> int:
        subject = self.subject or subject_name(self.strategy, self.topic, name)
        registry = Registry(self.registry)
        ask = registry.register if self.register else registry.find
        return ask(subject, Written("PROTOBUF", _text_of(file)), _imports(files, file))


def _path_bytes(path: tuple[int, ...]) -> bytes:
    if path == (0,):
        return b"\x00"
    numbers = np.array([len(path), *path], np.int64)
    return b"".join(signed_varints(numbers).to_pylist())


def _skip_paths(buffer: Buffer) -> list[tuple[int, ...]]:
    """Read each message's index path and move its start behind it."""
    found, after = varints(buffer, buffer.starts)
    counts = zigzag(found)
    bad = (after > buffer.ends) | (counts < 0) | (counts > MAX_INDEXES)
    buffer.blame(np.flatnonzero(bad), "its message index path cannot be read")
    buffer.starts = np.minimum(after, buffer.ends)
    if not counts.any():
        return [(0,)] * len(counts)
    paths: list[tuple[int, ...]] = [(0,)] * len(counts)
    for count, rows in by_key(np.where(bad, 0, counts)):
        steps = []
        for _ in range(count):
            found, after = varints(buffer, buffer.starts[rows])
            steps.append(zigzag(found))
            buffer.blame(rows[after > buffer.ends[rows]], "its message index path is cut off")
            buffer.starts[rows] = np.minimum(after, buffer.ends[rows])
        for place, row in enumerate(rows.tolist()):
            paths[row] = tuple(int(step[place]) for step in steps) or (0,)
    return paths


def _given(given: Any, message: str | None) -> tuple[bytes, str]:
    if isinstance(given, str) and ":" in given and not Path(given).exists():
        module, _, name = given.partition(":")
        try:
            given = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise SchemaError(f"the compiled message cannot be imported: {error}") from None
    if isinstance(given, str | Path):
        try:
            data = Path(given).read_bytes()
        except OSError as error:
            raise SchemaError(f"the descriptor set cannot be read: {error}") from None
        return _checked(data, message)
    if isinstance(given, bytes):
        return _checked(given, message)
    descriptor = getattr(given, "DESCRIPTOR", given)
    if not hasattr(descriptor, "fields_by_name"):
        raise SchemaError(
            "this is no Protobuf message",
            expected="a descriptor set's file, module:Message, or a message class",
            got=type(given).__name__,
        )
    files = descriptor_pb2.FileDescriptorSet()
    _collect(descriptor.file, files, set())
    return files.SerializeToString(), descriptor.full_name


def _checked(data: bytes, message: str | None) -> tuple[bytes, str]:
    if message is None:
        raise OptionError(
            "the option message is missing",
            expected="the full name of a message in the descriptor set",
        )
    return data, message


def _collect(file: Any, files: Any, seen: set[str]) -> None:
    if file.name in seen:
        return
    seen.add(file.name)
    for other in file.dependencies:
        _collect(other, files, seen)
    file.CopyToProto(files.file.add())


def _file_set(data: bytes) -> Any:
    files = descriptor_pb2.FileDescriptorSet()
    try:
        files.ParseFromString(data)
    except DecodeError:
        raise SchemaError("this is no Protobuf descriptor set") from None
    return files


@lru_cache(maxsize=256)
def _pool(data: bytes) -> Any:
    pool = descriptor_pool.DescriptorPool()
    files = _file_set(data)
    try:
        for file in files.file:
            pool.Add(file)
    except TypeError as error:
        raise SchemaError(f"the Protobuf descriptors do not fit together: {error}") from None
    return pool


@lru_cache(maxsize=256)
def _plan(data: bytes, name: str) -> Message:
    return plan(_descriptor(data, name))


def _descriptor(data: bytes, name: str) -> Any:
    try:
        if not name:
            last = _file_set(data).file[-1]
            file = _pool(data).FindFileByName(last.name)
            return file.message_types_by_name[last.message_type[0].name]
        return _pool(data).FindMessageTypeByName(name)
    except (KeyError, IndexError, TypeError) as error:
        raise SchemaError(
            f"the Protobuf message {name or 'of the schema'} is not among the descriptors",
            got=str(error)[:200],
            fix="give message=... with its package, and --include_imports to protoc",
        ) from None


def _class(data: bytes, name: str) -> Any:
    return message_factory.GetMessageClass(_descriptor(data, name))


@lru_cache(maxsize=256)
def _narrowed(message: Message, only: tuple[str, ...] | None) -> Message:
    if only is None:
        return message
    return attrs.evolve(message, fields=tuple(f for f in message.fields if f.name in only))


@lru_cache(maxsize=256)
def _written_set(written: Written) -> bytes:
    """The descriptor set of a registry's schema: serialized files, those referred to first."""
    if written.kind != "PROTOBUF":
        raise SchemaError(
            "the registry's schema is of another kind", expected="PROTOBUF", got=written.kind
        )
    files = descriptor_pb2.FileDescriptorSet()
    for name, text in (*written.references, ("", written.text)):
        file = files.file.add()
        try:
            file.ParseFromString(base64.b64decode(text, validate=True))
        except (DecodeError, binascii.Error, ValueError):
            raise SchemaError("the registry's Protobuf schema is no serialized file") from None
        file.name = name or file.name
    known = {file.name for file in files.file}
    for wanted in {d for file in files.file for d in file.dependency} - known:
        standard = descriptor_pool.Default().FindFileByName(wanted)
        own = descriptor_pb2.FileDescriptorProto()
        standard.CopyToProto(own)
        files.file.insert(0, own)
    return files.SerializeToString()


def _text_of(file: Any) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def _imports(data: bytes, file: Any) -> tuple[Import, ...]:
    """The files a file imports, but for those that every registry has."""
    known = {each.name: each for each in _file_set(data).file}
    wanted = [name for name in file.dependency if not name.startswith(_STANDARD)]
    return tuple(
        Import(name, _text_of(known[name]), _imports(data, known[name])) for name in wanted
    )


def _last_file(data: bytes) -> str:
    return str(_file_set(data).file[-1].name)


def _file_of(data: bytes, message: str) -> Any:
    name = _pool(data).FindMessageTypeByName(message).file.name
    return next(file for file in _file_set(data).file if file.name == name)


@lru_cache(maxsize=256)
def _names(data: bytes, file: str) -> dict[tuple[int, ...], str]:
    """The full name of each message in a file by its index path."""
    found: dict[tuple[int, ...], str] = {}

    def walk(descriptor: Any, path: tuple[int, ...]) -> None:
        found[path] = descriptor.full_name
        for index, each in enumerate(descriptor.nested_types):
            walk(each, (*path, index))

    top = _pool(data).FindFileByName(file).message_types_by_name.values()
    for index, each in enumerate(top):
        walk(each, (index,))
    return found
