"""What a connector's author implements: attrs and pyarrow, never Spark."""

from penstock.contracts.coder import Coder, Decoded, Encoded, ObjectCoder, RowError
from penstock.contracts.envelope import ENVELOPE, PEN, STAMP, TIMESTAMP, UNDECODED
from penstock.contracts.options import Configured, at_least, connector, option
from penstock.contracts.plugin import CAPABILITIES, CONTRACTS, Connector
from penstock.contracts.queue import Consumer, Lease, QueueSource
from penstock.contracts.secret import Secret
from penstock.contracts.sink import Batch, Promise, Receipt, Rejected, Sink, Writer
from penstock.contracts.source import Context, Limit, Part, Planner, Position, ReplayableSource
from penstock.contracts.transform import Anything, Bytes, Columns, Objects, Transform, Type

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
