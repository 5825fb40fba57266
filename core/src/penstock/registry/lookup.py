"""Finding what is installed: listed without importing, loaded one at a time on request."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import TYPE_CHECKING, Any, Literal

from attrs import frozen

from penstock.contracts.errors import PenstockError, PluginError, UnknownNameError, did_you_mean
from penstock.contracts.plugin import CONTRACTS, Connector

if TYPE_CHECKING:
    from penstock.contracts.coder import Coder, ObjectCoder
    from penstock.contracts.transform import Transform

Kind = Literal["connectors", "coders", "transforms", "hooks"]
_KINDS = ("connectors", "coders", "transforms", "hooks")


@frozen
class Entry:
    """One name that a distribution claims; nothing of it is imported yet."""

    name: str
    distribution: str
    version: str
    point: EntryPoint

    @property
    def who(self) -> str:
        """How errors name it: `kafka (penstock-kafka 1.2)`."""
        return f"{self.name} ({self.distribution} {self.version})"


@frozen
class Listed:
    """One installed thing, loaded or broken, as `penstock connectors` shows it."""

    entry: Entry
    found: Any = None
    broken: str | None = None


@cache
def _entries() -> dict[str, dict[str, list[Entry]]]:
    found: dict[str, dict[str, list[Entry]]] = {kind: {} for kind in _KINDS}
    seen: set[tuple[str, str, str]] = set()
    for distribution in distributions():
        for point in _points_of(distribution):
            kind = point.group.removeprefix("penstock.")
            name = _canonical(distribution)
            if (name, kind, point.name) in seen:
                continue
            seen.add((name, kind, point.name))
            entry = Entry(point.name, name, distribution.version, point)
            found[kind].setdefault(point.name, []).append(entry)
    return found


def _points_of(distribution: Distribution) -> list[EntryPoint]:
    text = distribution.read_text("entry_points.txt")
    if text is None or "penstock." not in text:
        return []
    groups = {f"penstock.{kind}" for kind in _KINDS}
    return [point for point in distribution.entry_points if point.group in groups]


def _canonical(distribution: Distribution) -> str:
    return re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()


def refresh() -> None:
    """Forget what was listed: a distribution was installed while this process ran."""
    _entries.cache_clear()


def names(kind: Kind) -> list[str]:
    """Every installed name of a kind, sorted; imports nothing."""
    return sorted(_entries()[kind])


def entry(kind: Kind, name: str) -> Entry:
    """Who claims a name.

    Raises:
        UnknownNameError: nobody; with a suggestion and the package to install.
        PluginError: two distributions claim it.
    """
    claims = _entries()[kind].get(name)
    if not claims:
        installed = names(kind)
        raise UnknownNameError(
            f"no {kind[:-1]} named {name!r} is installed",
            expected="one of " + ", ".join(installed),
            fix=did_you_mean(name, installed) or f"pip install penstock-{name}",
        )
    if len(claims) > 1:
        claimants = sorted(f"{c.distribution} {c.version}" for c in claims)
        raise PluginError(
            f"two distributions claim the {kind[:-1]} {name!r}",
            got=" and ".join(claimants),
            fix="uninstall one of them",
        )
    return claims[0]


def listing(kind: Kind) -> list[Listed]:
    """Everything of a kind, each loaded alone, so that a broken one harms no other."""
    out = []
    for name in names(kind):
        for claim in _entries()[kind][name]:
            try:
                entry(kind, name)
                out.append(Listed(claim, found=_load(kind, claim)))
            except PenstockError as error:
                out.append(Listed(claim, broken=str(error)))
    return out


def connector(name: str) -> Connector:
    """The connector of a name, loaded and checked.

    Raises:
        UnknownNameError: none is installed.
        PluginError: it cannot be loaded, is no connector, or speaks other contracts.
    """
    found: Connector = _load("connectors", entry("connectors", name))
    return found


def coder(name: str) -> type[Coder] | type[ObjectCoder]:
    """The coder class of a name; raises like `connector`."""
    found: type[Coder] | type[ObjectCoder] = _load("coders", entry("coders", name))
    return found


def transform(name: str) -> type[Transform]:
    """The transform class of a name; raises like `connector`."""
    found: type[Transform] = _load("transforms", entry("transforms", name))
    return found


def _load(kind: Kind, claim: Entry) -> Any:
    try:
        found = claim.point.load()
    except PenstockError as error:
        raise error.by(claim.who) from None
    except Exception as error:
        raise PluginError(
            f"the plugin fails to load: {type(error).__name__}: {error}",
            who=claim.who,
            expected=f"{claim.point.value} can be imported",
            fix=f"reinstall or upgrade {claim.distribution}, or report it to its author",
        ) from error
    _check(kind, claim, found)
    return found


def _check(kind: Kind, claim: Entry, found: Any) -> None:
    if kind == "connectors":
        if not isinstance(found, Connector):
            raise _not_a("a penstock.contracts.Connector", claim, found)
        if found.contracts != CONTRACTS:
            older = found.contracts < CONTRACTS
            raise PluginError(
                f"the plugin was written for version {found.contracts} of the contracts, "
                f"this penstock speaks version {CONTRACTS}",
                who=claim.who,
                fix=f"upgrade {claim.distribution if older else 'penstock'}",
            )
    elif kind == "coders":
        from penstock.contracts.coder import Coder, ObjectCoder

        if not (isinstance(found, type) and issubclass(found, Coder | ObjectCoder)):
            raise _not_a("a Coder class", claim, found)
    elif kind == "transforms":
        from penstock.contracts.transform import Transform

        if not (isinstance(found, type) and issubclass(found, Transform)):
            raise _not_a("a Transform class", claim, found)


def _not_a(wanted: str, claim: Entry, found: Any) -> PluginError:
    return PluginError(
        "the plugin's entry point names something else",
        who=claim.who,
        expected=wanted,
        got=f"{claim.point.value}, of type {type(found).__qualname__}",
        fix="report it to the plugin's author",
    )
