"""Clauses about what a connector is, before it does anything."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from typing import Any

from penstock import registry
from penstock.conformance.clauses import clause
from penstock.conformance.gate import ABOUT, sides
from penstock.conformance.rig import Rig
from penstock.contracts import CAPABILITIES, CONTRACTS, ENVELOPE, Limit, QueueSource, Sink
from penstock.contracts.errors import PenstockError

_LOOK = """
import json, os, sys, threading
before = set(os.listdir("/proc/self/fd"))
from importlib import import_module
module, _, name = sys.argv[1].partition(":")
found = getattr(import_module(module), name)
found.source, found.sink  # each may be named by its place, and is imported only when asked for
sockets = []
for entry in set(os.listdir("/proc/self/fd")) - before:
    try:
        target = os.readlink(f"/proc/self/fd/{entry}")
    except OSError:
        continue
    if target.startswith("socket:"):
        sockets.append(target)
print(json.dumps({
    "name": found.name, "pyspark": "pyspark" in sys.modules, "sockets": sockets,
    "threads": [t.name for t in threading.enumerate() if t is not threading.main_thread()],
}))
"""


class ShapeClauses:
    """SHP: identity, capabilities, values."""

    @clause("SHP-01", "identity and version")
    def test_shp_01_identity(self, rig: Rig) -> None:
        """A connector has a name in lower case, a summary, a shape, and speaks this version of
        the contracts; installed, its entry point has that name and its distribution a version."""
        found = rig.connector
        assert re.fullmatch(r"[a-z][a-z0-9-]*", found.name), f"{found.name!r} is no name"
        assert found.summary.strip(), "a connector needs a summary"
        assert sides(found), "a connector needs a source or a sink"
        assert found.contracts == CONTRACTS
        for side in (found.source, found.sink):
            assert side is None or (side.__doc__ or "").strip(), f"{side} needs a docstring"
        if found.name in registry.names("connectors"):
            entry = registry.entry("connectors", found.name)
            assert entry.name == found.name, f"{entry.name} names {found.name}"
            assert re.match(r"\d", entry.version), f"{entry.version!r} is no version"

    @clause("SHP-02", "capabilities are declared, known, and about its shape")
    def test_shp_02_capabilities(self, rig: Rig) -> None:
        """Each declared capability is one of the contracts' list and about a shape the connector
        has; `exactly-once` is declared exactly if the sink's promise is idempotent. What is
        declared cannot be skipped: its clauses must pass."""
        found = rig.connector
        unknown = found.capabilities - set(CAPABILITIES)
        assert not unknown, f"unknown capabilities: {sorted(unknown)}"
        for capability in found.capabilities:
            assert sides(found) & set(ABOUT[capability]), f"{capability} is about no shape it has"
        if found.sink is not None:
            idempotent = rig.sink().promise().replay == "idempotent"
            declared = rig.has("exactly-once")
            assert idempotent == declared, (
                f"exactly-once is {'' if declared else 'not '}declared, the promise of this case "
                f"is {rig.sink().promise().replay}"
            )

    @clause("SHP-03", "values pickle, and hold nothing alive")
    def test_shp_03_pickle(self, rig: Rig) -> None:
        """Source and sink are frozen values of options: they pickle, come back equal, cannot be
        changed, and using them (`check`, a planner, a consumer, a writer) leaves nothing behind in
        them."""
        for side in ("source", "sink"):
            if getattr(rig.connector, side) is None:
                continue
            value = getattr(rig, side)()
            before = pickle.dumps(value)
            assert pickle.loads(before) == value, f"the {side} came back unequal"
            try:
                value.check()
            except PenstockError as error:
                raise AssertionError(f"check() fails on a good place: {error}") from error
            _used(rig, value)
            assert pickle.dumps(value) == before, f"the {side} holds something after it was used"
            try:
                value.surely_not_an_option = 1
            except AttributeError:
                continue
            raise AssertionError(f"the {side} can be changed: use the @connector decorator")

    @clause("SHP-04", "importing the plugin opens nothing")
    def test_shp_04_import(self, rig: Rig) -> None:
        """In a fresh process the connector's module, and those of its source and sink, import
        without Spark, start no thread and open no socket; Spark's module for it imports without
        an error."""
        looked = _looked(where(rig))
        assert looked["name"] == rig.connector.name
        assert not looked["pyspark"], "importing the connector imports pyspark"
        assert not looked["threads"], f"importing it starts threads: {looked['threads']}"
        assert not looked["sockets"], "importing it opens sockets"
        if rig.connector.name in registry.names("connectors"):
            module = f"pyspark_penstock_{rig.connector.name.replace('-', '_')}"
            done = subprocess.run(
                [sys.executable, "-c", f"import {module}; {module}.DefaultSource"],
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, f"Spark cannot find it: {done.stderr[-500:]}"


def _used(rig: Rig, value: Any) -> None:
    """What a driver and a worker do with a source or a sink, without any rows."""
    if isinstance(value, Sink):
        batch = rig.batch(partitions=1)
        value.begin(batch)
        value.open(batch, 0, 0, value.accepts(ENVELOPE)).abort()
        value.discard(batch, [])
    elif isinstance(value, QueueSource):
        value.consumer(rig.ctx(), 0).close()
    else:
        with rig.planner(value) as planner:
            start = planner.initial()
            rig.read(planner.plan(start, planner.latest(start, Limit(rows=1))), value)


def where(rig: Rig) -> str:
    """`module:attribute` of the connector."""
    if rig.connector.name in registry.names("connectors"):
        return registry.entry("connectors", rig.connector.name).point.value
    for module in list(sys.modules.values()):
        for name, value in list(vars(module).items()) if hasattr(module, "__dict__") else []:
            if value is rig.connector and "test" not in module.__name__:
                return f"{module.__name__}:{name}"
    raise AssertionError("the connector is in no module that can be imported")


def _looked(where: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", _LOOK, where], capture_output=True, text=True)
    assert done.returncode == 0, f"{where} cannot be imported: {done.stderr[-800:]}"
    looked: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return looked
