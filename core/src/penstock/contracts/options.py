"""Options: declared once as attrs fields, validated, documented, and converted.

    @connector
    class Lines(ReplayableSource):
        path: str = option(doc="Folder or file to read.")
        limit: int = option(default=10, doc="...", check=at_least(1))

Validation, the docs table, the JSON Schema and Spark's string options all come from there.
"""

from __future__ import annotations

import re
import typing
from abc import ABC
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

import attrs

from penstock.contracts.errors import OptionError, PenstockError, did_you_mean
from penstock.contracts.secret import Secret, is_reference, resolve
from penstock.contracts.values import convert, describe, schema_of, to_text

C = TypeVar("C", bound="Configured")
_REQUIRED: Any = attrs.NOTHING


def option(
    *,
    doc: str,
    default: Any = _REQUIRED,
    factory: Callable[[], Any] | None = None,
    check: Callable[[Any], str | None] | None = None,
    prefix: str | None = None,
    unit: str | None = None,
    example: str | None = None,
) -> Any:
    """Declare an option.

    Args:
        doc: One or two sentences for the user.
        default: Its value if not given; without one it is required.
        factory: Makes the default, for lists and dicts.
        check: Returns what is wrong with a value, in words that follow "must", or None.
        prefix: Collects every given option with this prefix into a `dict[str, str | Secret]`;
            a value whose name says so, or that is a reference, arrives as a `Secret`.
        unit: `bytes` takes "8 MiB", `seconds` takes "5 min"; plain numbers too.
        example: A value worth showing in the docs.
    """
    meta = {"doc": doc, "check": check, "prefix": prefix, "unit": unit, "example": example}
    if prefix is not None:
        factory = dict
    if factory is not None:
        return attrs.field(factory=factory, metadata=meta, kw_only=True)
    if isinstance(default, Secret):
        raise TypeError("a secret has no default value")
    return attrs.field(default=default, metadata=meta, kw_only=True)


def at_least(low: float) -> Callable[[Any], str | None]:
    """A check for numbers."""
    return lambda value: f"must be at least {low:g}" if value < low else None


def one_character(text: str) -> str | None:
    """A check for delimiters and the like."""
    return None if len(text) == 1 and text.isascii() else "must be one ASCII character"


@typing.dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(option,))
def connector(cls: type[C]) -> type[C]:
    """Class decorator of everything that is made of options: frozen, keyword-only, picklable."""
    made = attrs.frozen(kw_only=True, slots=False)(cls)
    made.__doc__ = cls.__doc__
    return made


class Configured(ABC):  # noqa: B024
    """Something that is made from options: a source, a sink, a coder, a transform."""

    def settle(self) -> None:  # noqa: B027
        """Refuse options that contradict each other. Called once, after all are set.

        Raises:
            OptionError: which ones, and which to drop.
        """

    def __attrs_post_init__(self) -> None:
        for spec in specs(type(self)):
            value = spec.of(self)
            if spec.check is not None and value is not None:
                complaint = spec.check(value)
                if complaint is not None:
                    shown = "***" if spec.secret else repr(value)
                    raise OptionError(f"the option {spec.name} {complaint}", got=shown)
        self.settle()


@attrs.frozen
class Spec:
    """One declared option, as documentation and parsing see it."""

    name: str
    type: Any
    doc: str
    default: Any
    required: bool
    check: Callable[[Any], str | None] | None
    prefix: str | None
    unit: str | None
    example: str | None
    attribute: str

    def of(self, value: Configured) -> Any:
        """Its value; an option `schema` beside a method of that name is declared `_schema`."""
        return getattr(value, self.attribute)

    @property
    def secret(self) -> bool:
        """Whether its value must never print."""
        return self.type is Secret or Secret in typing.get_args(self.type)


def specs(cls: type) -> list[Spec]:
    """The declared options of a class, in order; other attrs fields are not options."""
    return list(_specs(cls))


@cache
def _specs(cls: type) -> tuple[Spec, ...]:
    if not attrs.has(cls):
        return ()
    hints = typing.get_type_hints(cls)
    found = []
    for attribute in attrs.fields(cls):
        if "doc" not in attribute.metadata:
            continue
        meta = attribute.metadata
        default = attribute.default
        required = default is attrs.NOTHING
        if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
            default = default.factory()
        found.append(
            Spec(
                name=attribute.alias or attribute.name,
                type=hints[attribute.name],
                doc=meta["doc"],
                default=None if required else default,
                required=required,
                check=meta["check"],
                prefix=meta["prefix"],
                unit=meta["unit"],
                example=meta["example"],
                attribute=attribute.name,
            )
        )
    return tuple(found)


def parse(cls: type[C], given: Mapping[str, Any], *, who: str | None = None) -> C:
    """Make a `cls` from given options.

    Raises:
        OptionError: unknown (with a suggestion), missing, of the wrong type, or contradictory.
    """
    return parse_together([cls], given, who=who)[0]  # type: ignore[no-any-return]


def parse_together(
    classes: list[type[Any]], given: Mapping[str, Any], *, who: str | None = None
) -> list[Any]:
    """Make one value of each class from one bag of options; each option must belong to one.

    Spark hands over option names in lower case: names are matched without regard to case.
    """
    try:
        declared = [specs(cls) for cls in classes]
        _refuse_unknown(given, [spec for each in declared for spec in each])
        leftover = dict(given)
        values = [_take(each, leftover) for each in declared]
        return [cls(**kw) for cls, kw in zip(classes, values, strict=True)]
    except PenstockError as error:
        raise (error.by(who) if who else error) from None


def _take(declared: list[Spec], leftover: dict[str, Any]) -> dict[str, Any]:
    taken: dict[str, Any] = {}
    by_lower = {key.lower(): key for key in leftover}
    for spec in declared:
        if spec.prefix is not None:
            matching = [k for k in leftover if k.lower().startswith(spec.prefix)]
            bag = {k[len(spec.prefix) :]: leftover.pop(k) for k in matching}
            whole = leftover.pop(spec.name, None)
            if isinstance(whole, Mapping):
                bag = {**whole, **bag}
            taken[spec.name] = {str(k): _setting(str(k), v) for k, v in bag.items()}
            continue
        key = by_lower.get(spec.name.lower())
        if key is None or key not in leftover:
            if spec.required:
                raise OptionError(
                    f"the option {spec.name} is missing",
                    expected=f"{spec.name}: {describe(spec.type, spec.unit)} ({spec.doc})",
                    fix=f"add {spec.name}=...",
                )
            continue
        raw = leftover.pop(key)
        if not spec.secret and is_reference(raw):
            raw = resolve(raw)
        taken[spec.name] = convert(raw, spec.type, name=spec.name, unit=spec.unit)
    return taken


def _setting(name: str, value: Any) -> str | Secret:
    text = value if isinstance(value, str | Secret) else to_text(value)
    if isinstance(text, str) and (hides(name) or is_reference(text)):
        return Secret(text)
    return text


def _refuse_unknown(given: Mapping[str, Any], declared: list[Spec]) -> None:
    known = [spec.name for spec in declared]
    lowered = {name.lower() for name in known}
    prefixes = tuple(spec.prefix for spec in declared if spec.prefix is not None)
    for word in given:
        if word.lower() in lowered or word.lower().startswith(prefixes or ("\0",)):
            continue
        names = sorted(s.name for s in declared if s.prefix is None) + [f"{p}*" for p in prefixes]
        raise OptionError(
            f"the option {word} is unknown",
            expected="one of " + ", ".join(names) if names else "no options",
            fix=did_you_mean(word.lower(), known) or "remove it",
        )


def to_strings(value: Configured) -> dict[str, str]:
    """The options of a connector as Spark takes them: all strings, defaults left out.

    A literal secret is written in clear: Spark has no other way; prefer a reference.
    """
    out: dict[str, str] = {}
    for spec in specs(type(value)):
        current = spec.of(value)
        if spec.prefix is not None:
            out.update({spec.prefix + k: to_text(v) for k, v in current.items()})
        elif current is not None and (spec.required or current != spec.default):
            out[spec.name] = to_text(current)
    return out


def shown(value: Configured) -> dict[str, str]:
    """The options of a connector fit for an error message or a log: secrets as `***`."""
    out = {}
    for spec in specs(type(value)):
        current = spec.of(value)
        if current is None or (not spec.required and current == spec.default):
            continue
        if spec.prefix is not None:
            out.update({spec.prefix + k: str(v) for k, v in current.items()})
        else:
            out[spec.name] = "***" if spec.secret else to_text(current)
    return out


HIDDEN = (
    "secret|password|passwd|passphrase|token|access.?key|private.?key|key.pem|credential|"
    "connection.?string|sasl.jaas.config|\\buri\\b|\\burl\\b|api.?key|user.?info"
)
"""Names whose values Spark's redaction and ours must hide, as one regular expression."""


def hides(name: str) -> bool:
    """Whether a pass-through setting of this name holds a secret."""
    return re.search(f"(?i){HIDDEN}", name) is not None


def table(cls: type) -> list[dict[str, str]]:
    """The options as rows of a documentation table: name, type, default, doc."""
    rows = []
    for spec in specs(cls):
        name = f"{spec.prefix}*" if spec.prefix is not None else spec.name
        default = "required" if spec.required else to_text(spec.default)
        if spec.prefix is not None or (spec.default is None and not spec.required):
            default = ""
        doc = spec.doc if spec.example is None else f"{spec.doc} Example: `{spec.example}`."
        rows.append(
            {
                "name": name,
                "type": describe(spec.type, spec.unit),
                "default": default,
                "doc": doc,
            }
        )
    return rows


def json_schema(cls: type) -> dict[str, Any]:
    """The options as a JSON Schema object."""
    properties: dict[str, Any] = {}
    patterns: dict[str, Any] = {}
    required = []
    for spec in specs(cls):
        entry = {**schema_of(spec.type, spec.unit), "description": spec.doc}
        if spec.prefix is not None:
            patterns[f"^{spec.prefix.replace('.', chr(92) + '.')}"] = {"description": spec.doc}
            continue
        if not spec.required and spec.default is not None and not spec.secret:
            plain = spec.default
            entry["default"] = (
                plain if isinstance(plain, bool | int | float | str) else to_text(plain)
            )
        properties[spec.name] = entry
        if spec.required:
            required.append(spec.name)
    out: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    if patterns:
        out["patternProperties"] = patterns
    if required:
        out["required"] = required
    return out
