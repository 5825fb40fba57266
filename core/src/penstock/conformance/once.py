"""Costly runs happen once per suite class; several clauses look at what a run left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

T = TypeVar("T")


class Once:
    """Remembers runs by suite and kind, also those that failed."""

    _runs: ClassVar[dict[tuple[type, str], Any]] = {}

    def _once(self, kind: str, make: Callable[[], T]) -> T:
        key = (type(self), kind)
        if key not in self._runs:
            try:
                self._runs[key] = make()
            except BaseException as error:
                self._runs[key] = error
                raise
        found = self._runs[key]
        if isinstance(found, BaseException):
            raise AssertionError(f"the run failed before: {found}") from found
        done: T = found
        return done
