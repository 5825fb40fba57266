"""Places in a topic as users write them: earliest, latest, an offset, a moment; by partition."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal

from attrs import frozen

from penstock.contracts.errors import OptionError


@frozen
class Where:
    """One place: a named end of the log, an offset, or a moment in milliseconds."""

    kind: Literal["earliest", "latest", "offset", "moment"]
    value: int = 0


EARLIEST = Where("earliest")
LATEST = Where("latest")


def parse_where(raw: Any, option: str) -> Where:
    """A single place.

    Raises:
        OptionError: it is none of the four.
    """
    if isinstance(raw, str):
        text = raw.strip()
        if text.lower() in ("earliest", "latest"):
            return EARLIEST if text.lower() == "earliest" else LATEST
        if text.isdigit():
            return Where("offset", int(text))
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise _wrong(raw, option) from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return Where("moment", int(moment.timestamp() * 1000))
    if isinstance(raw, int) and not isinstance(raw, bool) and raw >= 0:
        return Where("offset", raw)
    raise _wrong(raw, option)


def where_of(raw: Any, topic: str, partition: int, option: str, default: Where) -> Where:
    """The place for one partition.

    The option is one place for all, or a mapping by topic, or by topic and partition.
    """
    if not isinstance(raw, dict):
        return parse_where(raw, option)
    of_topic = raw.get(topic)
    if of_topic is None:
        return default
    if not isinstance(of_topic, dict):
        return parse_where(of_topic, option)
    of_partition = of_topic.get(str(partition), of_topic.get(partition))
    return default if of_partition is None else parse_where(of_partition, option)


def check_places(raw: Any, places: Iterable[tuple[str, int]], option: str) -> None:
    """See that a mapping names only what is read.

    Raises:
        OptionError: it names a topic or a partition that is not there.
    """
    if not isinstance(raw, dict):
        return
    known = set(places)
    topics = {topic for topic, _ in known}
    strange = [topic for topic in raw if topic not in topics]
    for topic, of_topic in raw.items():
        if topic in topics and isinstance(of_topic, dict):
            strange += [f"{topic}-{p}" for p in of_topic if (topic, _number(p)) not in known]
    if strange:
        raise OptionError(
            f"the option {option} names what is not read",
            expected=f"some of {', '.join(sorted(topics))}, and partitions that they have",
            got=", ".join(map(str, strange)),
        )


def _number(raw: Any) -> int | None:
    return int(raw) if str(raw).isdigit() else None


def check_where(option: str) -> Any:
    """A check for an option that holds places."""

    def check(raw: Any) -> str | None:
        topics = raw.values() if isinstance(raw, dict) else [raw]
        for topic in topics:
            for place in topic.values() if isinstance(topic, dict) else [topic]:
                try:
                    found = parse_where(place, option)
                except OptionError as error:
                    return f"must hold {error.expected}, not {place!r}"
                if found.kind == "offset" and topic is raw:
                    return "must name topic and partition for an offset"
        return None

    return check


def _wrong(raw: Any, option: str) -> OptionError:
    return OptionError(
        f"the option {option} holds a place that cannot be read",
        expected="earliest, latest, an offset, or a moment such as 2026-01-31T12:00:00Z",
        got=repr(raw),
    )
