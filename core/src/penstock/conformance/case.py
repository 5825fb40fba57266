"""What a plugin's test file tells the suite: where its data lies, and what can be done to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import pyarrow as pa
from attrs import define, field

from penstock.conformance.records import Record


class Breakable(Protocol):
    """A server that can be killed, and comes back with its data on the same address."""

    def kill(self) -> object:
        """As a power cut would."""

    def start(self) -> object:
        """Again, and wait until it answers."""


@define(kw_only=True)
class Case:
    """One fresh, empty place of a connector.

    Attributes:
        source: Options that read the place, if the connector is a source.
        sink: Options that write to it, if the connector is a sink.
        seed: Puts records into a split (0, 1, ...) of the place. Left out, the connector's own
            sink does it: partition n of a write is split n.
        read_back: The values the place holds, each as often as it is there; asked more than once.
            Left out, the connector's own source tells.
        expected: What the place holds from the start, for a source that makes its own records;
            nothing is then seeded.
        server: How to kill the server and bring it back; what declares `reconnects` needs it.
        proof: Against what the run proves something: a real server, an emulator, or none needed.
        untried: What a server that was named from outside cannot show, each with the reason: a
            capability (`reconnects`, if it is not ours to kill) or `wrong_credentials`. The
            clauses that need it are skipped, and every report says why.
        wrong_credentials: Options that replace those of `source` or `sink` and must be refused.
        contradictory: Options to add that contradict each other or what is there.
        typed: Options to add to source and sink so that rows have columns of their own; what
            declares `typed` needs it.
        step: Rows of the smallest step a batch can take: 1, or the rows of a file.
        at_once: The most messages one receive of a queue may hold back from others (prefetch).
        splits: How many splits a place with `splits` can have in this case.
        quiet: Seconds without news after which a queue counts as empty.
        patience: Seconds to wait for what should come, before the clause fails.
        identify: The ids in rows of the source; by default the first word of `value`.
        extra: Anything the plugin's own further tests want to find here.
    """

    source: Mapping[str, Any] | None = None
    sink: Mapping[str, Any] | None = None
    seed: Callable[[Sequence[Record], int], None] | None = None
    read_back: Callable[[], Sequence[bytes]] | None = None
    expected: Sequence[Record] | None = None
    server: Breakable | None = None
    proof: Literal["real server", "emulator", "no server"] = "no server"
    untried: Mapping[str, str] = field(factory=dict)
    wrong_credentials: Mapping[str, Any] | None = None
    contradictory: Mapping[str, Any] | None = None
    typed: Mapping[str, Any] | None = None
    step: int = 1
    at_once: int = 1000
    splits: int = 3
    quiet: float = 1.0
    patience: float = 30.0
    identify: Callable[[pa.RecordBatch], list[str]] | None = None
    extra: dict[str, Any] = field(factory=dict)
