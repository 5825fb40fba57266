"""YAML with positions: safe, no surprises (`on` is a word, not true), duplicate keys refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from penstock.contracts.errors import DocumentError

_TRUE = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")


class Marked(dict[Any, Any]):
    """A mapping that knows where it and its keys stand."""

    at: tuple[int, int]
    keys_at: dict[Any, tuple[int, int]]


class Listed(list[Any]):
    """A list that knows where it and its items stand."""

    at: tuple[int, int]
    items_at: list[tuple[int, int]]


def _place(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _resolvers(given: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """YAML's rules for plain words without those that turn `on`, `no` and dates into others."""
    left = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")
    kept = {k: [(t, p) for t, p in rules if t not in left] for k, rules in given.items()}
    for first in "tTfF":
        kept.setdefault(first, []).append(("tag:yaml.org,2002:bool", _TRUE))
    return kept


class Loader(yaml.SafeLoader):
    """Safe load with positions."""

    yaml_implicit_resolvers = _resolvers(yaml.SafeLoader.yaml_implicit_resolvers)

    def marked_map(self, node: yaml.MappingNode) -> Marked:
        """A mapping with its places."""
        self.flatten_mapping(node)
        made = Marked()
        made.at, made.keys_at = _place(node), {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str | int | float | bool):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must be a plain word", key_node.start_mark
                )
            if key in made:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key} stands here twice", key_node.start_mark
                )
            made[key] = self.construct_object(value_node, deep=True)
            made.keys_at[key] = _place(key_node)
        return made

    def marked_list(self, node: yaml.SequenceNode) -> Listed:
        """A list with its places."""
        made = Listed(self.construct_object(each, deep=True) for each in node.value)
        made.at, made.items_at = _place(node), [_place(each) for each in node.value]
        return made


Loader.add_constructor("tag:yaml.org,2002:map", Loader.marked_map)
Loader.add_constructor("tag:yaml.org,2002:seq", Loader.marked_list)


class Dumper(yaml.SafeDumper):
    """Writes what `Loader` reads."""

    yaml_implicit_resolvers = _resolvers(yaml.SafeDumper.yaml_implicit_resolvers)

    def ignore_aliases(self, data: Any) -> bool:
        """Write values out each time: anchors are hard to read."""
        return True


def load(text: str, where: str) -> Any:
    """The document, with positions.

    Raises:
        DocumentError: it is no YAML; `who` tells the line and column.
    """
    try:
        return yaml.load(text, Loader=Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""
        said = error.problem or error.context or "it cannot be read"
        raise DocumentError(f"this is not readable as YAML: {said}", who=where + at) from None
    except yaml.YAMLError as error:
        raise DocumentError(f"this is not readable as YAML: {error}", who=where) from None
    except RecursionError:
        raise DocumentError("this is nested too deeply", who=where) from None


def dump(data: Any) -> str:
    """A document's text."""
    return str(yaml.dump(data, Dumper=Dumper, sort_keys=False, width=88, allow_unicode=True))


def read(path: Path) -> str:
    """A pipeline file's text.

    Raises:
        DocumentError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DocumentError(
            "there is no such pipeline file", who=str(path), fix="check the path"
        ) from None
    except UnicodeDecodeError as error:
        raise DocumentError(
            "the pipeline file is not UTF-8 text", who=str(path), got=f"byte {error.start}"
        ) from None
    except OSError as error:
        raise DocumentError(
            f"the pipeline file cannot be read: {error.strerror}", who=str(path)
        ) from None
