"""What is installed: connectors, coders, transforms, and listeners to events."""

from penstock.registry.events import hooks, tell
from penstock.registry.hookspecs import hookimpl
from penstock.registry.lookup import (
    Entry,
    Listed,
    coder,
    connector,
    entry,
    listing,
    names,
    refresh,
    transform,
)

__all__ = [
    "Entry",
    "Listed",
    "coder",
    "connector",
    "entry",
    "hookimpl",
    "hooks",
    "listing",
    "names",
    "refresh",
    "tell",
    "transform",
]
