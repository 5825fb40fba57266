"""A user's function as a value: compared and written down by its import path where it has one."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from typing import Any

from attrs import field, frozen

from penstock.contracts.errors import DeclareError

_PATH = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")


def is_path(text: object) -> bool:
    """Whether a text has the form of an import path, `module:function`."""
    return isinstance(text, str) and _PATH.match(text) is not None


@frozen(repr=False)
class Function:
    """A function of the user's, by import path, by value, or both.

    Two are equal if their paths are; those without a path are equal if they are the same object.
    """

    path: str | None
    _held: Callable[..., Any] | None = field(default=None, eq=False, alias="held")
    _identity: int = field(init=False)

    @_identity.default
    def _same_object(self) -> int:
        return 0 if self.path is not None else id(self._held)

    @classmethod
    def of(cls, given: object) -> Function:
        """From what a user wrote: a callable, or `module:function`.

        Raises:
            DeclareError: it is neither.
        """
        if isinstance(given, Function):
            return given
        if callable(given):
            return cls(_path_of(given), held=given)
        if is_path(given):
            return cls(str(given))
        raise DeclareError(
            "a function is wanted",
            expected='a callable, or its import path "module:function"',
            got=repr(given),
        )

    def load(self) -> Callable[..., Any]:
        """The function itself; imports its module where only the path is known.

        Raises:
            DeclareError: the path leads nowhere, or to something that cannot be called.
        """
        if self._held is not None:
            return self._held
        module, _, name = str(self.path).partition(":")
        try:
            found: Any = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError) as error:
            raise DeclareError(
                f"the function {self.path} cannot be imported",
                expected='"module:function" of a module that Python finds',
                got=str(error),
                fix="install the module, or start from the folder that holds it",
            ) from error
        if not callable(found):
            raise DeclareError(
                f"{self.path} is not a function",
                expected="something that can be called",
                got=type(found).__name__,
            )
        return found  # type: ignore[no-any-return]

    @property
    def name(self) -> str:
        """How explain and default node names call it."""
        if self.path is not None:
            return self.path.partition(":")[2].rpartition(".")[2]
        name = getattr(self._held, "__name__", type(self._held).__name__)
        return "lambda" if name == "<lambda>" else str(name)

    def __str__(self) -> str:
        return self.path or self.name

    def __repr__(self) -> str:
        return f"Function({self})"


def _path_of(function: Callable[..., Any]) -> str | None:
    """The path under which importing finds this very object, or None."""
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None)
    if not module or not name or "<" in name:
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is function else None
