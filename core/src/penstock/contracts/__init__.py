"""What a connector's author implements: attrs and pyarrow, never Spark.

Names are loaded on first use, so that listing what is installed imports no Arrow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.contracts.coder import Coder, Decoded, Encoded, ObjectCoder, RowError
    from penstock.contracts.envelope import ENVELOPE, PEN, STAMP, TIMESTAMP, UNDECODED
    from penstock.contracts.options import Configured, at_least, connector, option
    from penstock.contracts.plugin import CAPABILITIES, CONTRACTS, Connector
    from penstock.contracts.queue import Consumer, Lease, QueueSource
    from penstock.contracts.secret import Secret
    from penstock.contracts.sink import Batch, Promise, Receipt, Rejected, Sink, Writer
    from penstock.contracts.source import Context, Limit, Part, Planner, Position, ReplayableSource
    from penstock.contracts.transform import Anything, Bytes, Columns, Objects, Transform, Type

_FROM = {
    "Coder": "penstock.contracts.coder",
    "Decoded": "penstock.contracts.coder",
    "Encoded": "penstock.contracts.coder",
    "ObjectCoder": "penstock.contracts.coder",
    "RowError": "penstock.contracts.coder",
    "ENVELOPE": "penstock.contracts.envelope",
    "PEN": "penstock.contracts.envelope",
    "STAMP": "penstock.contracts.envelope",
    "TIMESTAMP": "penstock.contracts.envelope",
    "UNDECODED": "penstock.contracts.envelope",
    "Configured": "penstock.contracts.options",
    "at_least": "penstock.contracts.options",
    "connector": "penstock.contracts.options",
    "option": "penstock.contracts.options",
    "CAPABILITIES": "penstock.contracts.plugin",
    "CONTRACTS": "penstock.contracts.plugin",
    "Connector": "penstock.contracts.plugin",
    "Consumer": "penstock.contracts.queue",
    "Lease": "penstock.contracts.queue",
    "QueueSource": "penstock.contracts.queue",
    "Secret": "penstock.contracts.secret",
    "Batch": "penstock.contracts.sink",
    "Promise": "penstock.contracts.sink",
    "Receipt": "penstock.contracts.sink",
    "Rejected": "penstock.contracts.sink",
    "Sink": "penstock.contracts.sink",
    "Writer": "penstock.contracts.sink",
    "Context": "penstock.contracts.source",
    "Limit": "penstock.contracts.source",
    "Part": "penstock.contracts.source",
    "Planner": "penstock.contracts.source",
    "Position": "penstock.contracts.source",
    "ReplayableSource": "penstock.contracts.source",
    "Anything": "penstock.contracts.transform",
    "Bytes": "penstock.contracts.transform",
    "Columns": "penstock.contracts.transform",
    "Objects": "penstock.contracts.transform",
    "Transform": "penstock.contracts.transform",
    "Type": "penstock.contracts.transform",
}

__all__ = [
    "CAPABILITIES",
    "CONTRACTS",
    "ENVELOPE",
    "PEN",
    "STAMP",
    "TIMESTAMP",
    "UNDECODED",
    "Anything",
    "Batch",
    "Bytes",
    "Coder",
    "Columns",
    "Configured",
    "Connector",
    "Consumer",
    "Context",
    "Decoded",
    "Encoded",
    "Lease",
    "Limit",
    "ObjectCoder",
    "Objects",
    "Part",
    "Planner",
    "Position",
    "Promise",
    "QueueSource",
    "Receipt",
    "Rejected",
    "ReplayableSource",
    "RowError",
    "Secret",
    "Sink",
    "Transform",
    "Type",
    "Writer",
    "at_least",
    "connector",
    "option",
]


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(_FROM[name]), name)
    globals()[name] = found
    return found
