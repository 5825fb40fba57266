"""Telling plugins what happens, one by one, so that a broken listener harms no other."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import pluggy

from penstock.contracts.errors import PenstockError
from penstock.registry import hookspecs
from penstock.registry.lookup import listing


@cache
def hooks() -> pluggy.PluginManager:
    """The plugin manager with every installed listener; made once per process."""
    manager = pluggy.PluginManager("penstock")
    manager.add_hookspecs(hookspecs)
    for listed in listing("hooks"):
        if listed.broken is not None:
            warnings.warn(f"a hook plugin is left out: {listed.broken}", stacklevel=2)
            continue
        try:
            manager.register(listed.found, name=listed.entry.name)
            manager.check_pending()
        except (ValueError, pluggy.PluginValidationError) as error:
            warnings.warn(f"{listed.entry.who}: left out: {error}", stacklevel=2)
            manager.unregister(name=listed.entry.name)
    return manager


def tell(event: str, **facts: Any) -> None:
    """Call the hook `penstock_<event>` of every listener."""
    caller = getattr(hooks().hook, f"penstock_{event}")
    for implementation in caller.get_hookimpls():
        given = {name: facts[name] for name in implementation.argnames if name in facts}
        try:
            implementation.function(**given)
        except Exception as error:
            shown = str(error) if isinstance(error, PenstockError) else repr(error)
            warnings.warn(
                f"{implementation.plugin_name}: its hook {event} raised: {shown}", stacklevel=2
            )
