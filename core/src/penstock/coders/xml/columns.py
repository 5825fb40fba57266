"""XML elements to columns: each column gathers texts, which become values all at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from penstock.coders.jsonread import from_text
from penstock.contracts.errors import CodecError, SchemaError

VALUE = "_VALUE"
NIL = "{http://www.w3.org/2001/XMLSchema-instance}nil"
_BLANK = " \t\r\n"


def column(kind: pa.DataType, trim: bool, where: str) -> Leaf | Struct | List:
    """What gathers a column of this type.

    Raises:
        SchemaError: XML has no form for the type.
    """
    if pa.types.is_struct(kind):
        return Struct(kind, trim, where)
    if pa.types.is_list(kind):
        return List(kind, trim, where)
    if pa.types.is_map(kind):
        raise SchemaError(
            f"the column {where} is a map, which XML has no form for",
            expected="plain types, structs and arrays",
            got=str(kind),
            fix="name the elements in a STRUCT",
        )
    return Leaf(kind, trim, where)


class Leaf:
    """Text of an element or attribute."""

    def __init__(self, kind: pa.DataType, trim: bool, where: str) -> None:
        self.kind = kind
        self.where = where
        self.is_text = pa.types.is_string(kind)
        self.trim = trim or not self.is_text
        self.may_be_empty = self.is_text or pa.types.is_binary(kind)
        self.texts: list[str | None] = []

    def clear(self) -> None:
        self.texts = []

    def add(self, element: Any) -> None:
        if len(element):
            self.add_text("".join(element.itertext()))
        elif (text := element.text) is not None:
            self.add_text(text)
        elif element.get(NIL) in ("true", "1"):
            self.texts.append(None)
        else:
            self.add_text("")

    def add_text(self, text: str) -> None:
        if self.trim:
            text = text.strip(_BLANK)
            if not text and not self.may_be_empty:
                self.texts.append(None)
                return
        self.texts.append(text)

    def add_null(self) -> None:
        self.texts.append(None)

    def array(self) -> pa.Array:
        texts = pa.array(self.texts, pa.string())
        if self.is_text:
            return texts
        try:
            return from_text(texts, self.kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise CodecError(f"{self.where} holds a text that is no {self.kind}") from None


class Struct:
    """An element with children and attributes of its own."""

    def __init__(self, kind: pa.DataType, trim: bool, where: str) -> None:
        self.kind = kind
        self.where = where
        self.columns = [column(f.type, trim, f"{where}.{f.name}".lstrip(".")) for f in kind]
        self.valid: list[bool] = []
        self.children: dict[str, int] = {}
        self.attributes: list[tuple[str, int]] = []
        self.value: int | None = None
        for index, field in enumerate(kind):
            if field.name == VALUE:
                self.value = index
            elif field.name.startswith("_"):
                self.attributes.append((field.name[1:], index))
            else:
                self.children[field.name] = index
        self.lists = {i for i, each in enumerate(self.columns) if isinstance(each, List)}
        self.all = frozenset(range(len(self.columns)))
        self.places: dict[str, tuple[int | None, Leaf | None]] = {}

    def clear(self) -> None:
        self.valid = []
        for each in self.columns:
            each.clear()

    def add(self, element: Any) -> None:
        if element.get(NIL) in ("true", "1"):
            self.add_null()
            return
        self.valid.append(True)
        self.fill(element)

    def fill(self, element: Any) -> None:
        columns = self.columns
        missing = set(self.all)
        places = self.places
        for child in element:
            tag = child.tag
            try:
                index, leaf = places[tag]
            except KeyError:
                index, leaf = self.place(tag)
            if index is None:
                continue
            if leaf is not None and index in missing:
                # What Leaf.add does, without two calls for the most common case.
                text = child.text
                if text is None or len(child):
                    leaf.add(child)
                else:
                    if leaf.trim:
                        text = text.strip(_BLANK)
                    leaf.texts.append(text if text or leaf.may_be_empty else None)
            elif index in self.lists:
                columns[index].more(child, index in missing)  # type: ignore[union-attr]
            elif index not in missing:
                raise CodecError(f"the element {columns[index].where} comes twice")
            else:
                columns[index].add(child)
            missing.discard(index)
        for name, index in self.attributes:
            text = _attribute(element, name)
            if text is not None:
                _text_column(columns[index]).add_text(text)
                missing.discard(index)
        if self.value is not None:
            _text_column(columns[self.value]).add_text(element.text or "")
            missing.discard(self.value)
        for index in missing:
            columns[index].add_null()

    def place(self, tag: Any) -> tuple[int | None, Leaf | None]:
        """Which column an element of this name goes to; names in any namespace are the same."""
        if not isinstance(tag, str):
            return None, None
        if len(self.places) > 10_000:
            self.places.clear()
        index = self.children.get(tag.rpartition("}")[2])
        into = None if index is None else self.columns[index]
        self.places[tag] = index, into if isinstance(into, Leaf) else None
        return self.places[tag]

    def add_null(self) -> None:
        self.valid.append(False)
        for each in self.columns:
            each.add_null()

    def array(self) -> pa.Array:
        arrays = [each.array() for each in self.columns]
        mask = None if all(self.valid) else pa.array([not v for v in self.valid])
        return pa.StructArray.from_arrays(arrays, fields=list(self.kind), mask=mask)


class List:
    """Any number of elements of one name."""

    def __init__(self, kind: pa.DataType, trim: bool, where: str) -> None:
        self.kind = kind
        self.where = where
        self.items = column(kind.value_type, trim, where)
        if isinstance(self.items, List):
            raise SchemaError(
                f"the column {where} is a list of lists, which XML has no form for",
                expected="a list of plain types or structs",
                got=str(kind),
            )
        self.starts: list[int | None] = []
        self.count = 0

    def clear(self) -> None:
        self.starts, self.count = [], 0
        self.items.clear()

    def add(self, element: Any) -> None:
        self.more(element, True)

    def more(self, element: Any, first: bool) -> None:
        if first:
            self.starts.append(self.count)
        self.items.add(element)
        self.count += 1

    def add_null(self) -> None:
        self.starts.append(None)

    def array(self) -> pa.Array:
        offsets = pa.array([*self.starts, self.count], pa.int32())
        return pa.ListArray.from_arrays(offsets, self.items.array(), type=self.kind)


def _text_column(found: Leaf | Struct | List) -> Leaf:
    if not isinstance(found, Leaf):
        raise CodecError(f"{found.where} is text, and its column is no plain type")
    return found


def _attribute(element: Any, name: str) -> str | None:
    text: str | None = element.get(name)
    if text is None:
        for key, value in element.items():
            if key.rpartition("}")[2] == name:
                return str(value)
    return text


class Paths:
    """Columns that say with an XPath each where their text is."""

    def __init__(self, paths: dict[str, Callable[[Any], Any]], struct: Struct) -> None:
        self.struct = struct
        self.paths = [(struct.kind.get_field_index(name), find) for name, find in paths.items()]

    def add(self, element: Any) -> None:
        for index, find in self.paths:
            _put(self.struct.columns[index], find(element))


def _put(into: Leaf | Struct | List, found: Any) -> None:
    if not isinstance(found, list):
        plain = str(found).lower() if isinstance(found, bool) else f"{found:g}"
        _text_column(into).add_text(found if isinstance(found, str) else plain)
    elif isinstance(into, List):
        for number, each in enumerate(found):
            if isinstance(each, str):
                if number == 0:
                    into.starts.append(into.count)
                _text_column(into.items).add_text(each)
                into.count += 1
            else:
                into.more(each, number == 0)
        if not found:
            into.add_null()
    elif not found:
        into.add_null()
    elif len(found) > 1:
        raise CodecError(f"the path of {into.where} finds more than one")
    elif isinstance(found[0], str):
        _text_column(into).add_text(found[0])
    else:
        into.add(found[0])
