"""The server a suite runs against: one that the user names, or one that a test has started."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen

from penstock.conformance.case import Breakable
from penstock.contracts import Connector
from penstock.contracts.errors import OptionError, SetupError
from penstock.contracts.options import specs

ADDRESS = "PENSTOCK_SERVER"
OPTIONS = "PENSTOCK_SERVER_OPTIONS"
EMULATOR = "PENSTOCK_SERVER_EMULATOR"
"""The environment by which a suite is told of its server, in this process or a new one."""

NOT_OURS = "the server was named from outside and is not ours to kill"


@frozen(kw_only=True)
class Server:
    """Where a suite makes its places.

    Attributes:
        address: As the suite's `server` describes it.
        options: What else source and sink need to reach it: credentials, certificates, jars.
        breakable: How to kill it and bring it back; None for a server that is not ours to kill.
        proof: What a run against it proves.
    """

    address: str = field(repr=False)
    options: Mapping[str, Any] = field(factory=dict, repr=False)
    breakable: Breakable | None = None
    proof: Literal["real server", "emulator"] = "real server"

    @property
    def untried(self) -> dict[str, str]:
        """What a case on this server cannot show, for `Case.untried`."""
        return {} if self.breakable is not None else {"reconnects": NOT_OURS}

    def options_of(self, connector: Connector) -> tuple[dict[str, Any], dict[str, Any]]:
        """The options that the source of a connector takes, and those that its sink takes.

        Raises:
            OptionError: neither takes one of them.
        """
        source, sink = self._taken(connector.source), self._taken(connector.sink)
        strange = [name for name in self.options if name not in source and name not in sink]
        if strange:
            raise OptionError(f"neither source nor sink has an option {strange[0]!r}")
        return source, sink

    def _taken(self, side: type | None) -> dict[str, Any]:
        known = [] if side is None else specs(side)
        names = {spec.name for spec in known if spec.prefix is None}
        prefixes = tuple(spec.prefix for spec in known if spec.prefix is not None)
        return {
            name: value
            for name, value in self.options.items()
            if name in names or name.startswith(prefixes)
        }


def named(environment: Mapping[str, str]) -> Server | None:
    """The server that an environment names, if it names one.

    Raises:
        SetupError: its options cannot be read.
    """
    address = environment.get(ADDRESS)
    if not address:
        return None
    try:
        options = json.loads(environment.get(OPTIONS) or "{}")
    except ValueError:
        options = None
    if not isinstance(options, dict):
        raise SetupError(
            f"the variable {OPTIONS} cannot be read",
            expected='a JSON object, such as {"user": "me", "password": "${env:PASSWORD}"}',
        )
    emulated = environment.get(EMULATOR, "").lower() in ("1", "true", "yes")
    return Server(address=address, options=options, proof="emulator" if emulated else "real server")


def naming(address: str | None, options: Mapping[str, str], emulator: bool) -> dict[str, str]:
    """The environment that names a server; empty where nothing is said."""
    said = {}
    if address:
        said[ADDRESS] = address
    if options:
        said[OPTIONS] = json.dumps(dict(options))
    if emulator:
        said[EMULATOR] = "1"
    return said


def missing(name: str, wanted: str) -> SetupError:
    """No server is named: how to do it."""
    return SetupError(
        f"the suite of {name} runs against a server of yours, and none is named",
        expected=wanted,
        fix=f"name it with --server, or in {ADDRESS}; what else it takes to get in with "
        f"--option NAME=VALUE, or as a JSON object in {OPTIONS}",
    )
