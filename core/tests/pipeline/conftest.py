from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from core.tests.pipeline import standins
from penstock.registry import lookup

_STANDINS = {
    "connectors": {
        "amqp-queue": "queue",
        "onefile": "onefile",
        "bytesink": "bytesink",
        "once": "once",
        "by-task": "by_task",
        "pictures": "pictures",
    },
    "coders": {"tag": "TagCoder"},
    "transforms": {"tag-filter": "TagFilter"},
}


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-ins as if they were installed, over whatever really is."""
    found = {kind: dict(names) for kind, names in lookup._entries().items()}
    for kind, names in _STANDINS.items():
        for name, attribute in names.items():
            point = EntryPoint(name, f"{standins.__name__}:{attribute}", f"penstock.{kind}")
            found[kind][name] = [lookup.Entry(name, "penstock-standins", "1.0", point)]
    monkeypatch.setattr(lookup, "_entries", lambda: found)
