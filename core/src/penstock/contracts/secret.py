"""Values that never print, and references to values that live elsewhere."""

from __future__ import annotations

import os
import re
from pathlib import Path

from attrs import field, frozen

from penstock.contracts.errors import OptionError

_REFERENCE = re.compile(r"\$\{(env|file):([^}]+)\}")


def is_reference(text: object) -> bool:
    """Whether a value holds a `${env:NAME}` or `${file:PATH}` reference."""
    return isinstance(text, str) and _REFERENCE.search(text) is not None


def resolve(text: str) -> str:
    """Replace each `${env:NAME}` and `${file:PATH}` by what it refers to, now, in this process.

    Raises:
        OptionError: the variable is not set, or the file cannot be read.
    """

    def value(match: re.Match[str]) -> str:
        kind, name = match.groups()
        if kind == "env":
            found = os.environ.get(name)
            if found is None:
                raise OptionError(
                    f"the environment variable {name} is not set",
                    got=match.group(0),
                    fix=f"export {name} where this runs (driver and executors for a secret)",
                )
            return found
        try:
            return Path(name).read_text(encoding="utf-8").rstrip("\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise OptionError(
                f"the referenced file cannot be read: {reason}",
                got=match.group(0),
                fix="make the file readable where this runs",
            ) from None

    return _REFERENCE.sub(value, text)


@frozen(repr=False)
class Secret:
    """A value that never prints: `repr`, `str`, `format` and logs show `***`.

    It may hold a reference, which is resolved by `reveal()` where the value is used, so that
    neither a plan nor a checkpoint nor a pickled connector holds the value itself.
    """

    _value: str = field()

    @_value.validator
    def _is_text(self, _: object, value: object) -> None:
        if not isinstance(value, str):
            raise OptionError("a secret must be text", expected="str", got=type(value).__name__)

    def reveal(self) -> str:
        """The value itself. Call it where it is used, keep it in no attribute."""
        return resolve(self._value)

    @property
    def reference(self) -> str | None:
        """The reference this secret was declared with, or None for a literal value."""
        return self._value if is_reference(self._value) else None

    def __repr__(self) -> str:
        return "Secret('***')"

    def __str__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return format("***", spec)
