"""The counting oracle: known ids go in, every arrival is counted, and the two are compared.

Counts, not sets, or duplicates would hide; and reading goes on for a while after the end marker,
or what comes late would hide.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from attrs import field, frozen

SHOWN = 10


@frozen
class Verdict:
    """What became of the ids that went in.

    Attributes:
        ok: Nothing lost, nothing unexpected, duplicates within what was allowed, end seen.
        lost: Ids that never arrived, in the order they were sent.
        unexpected: Ids that were never sent, with how often they arrived.
        duplicated: Ids that arrived more than once, with the number of surplus arrivals.
        allowed: Surplus arrivals allowed in all; None is any number.
        sent: How many ids went in.
        arrived: How many arrivals there were, duplicates included.
        complete: False if reading ended before the end marker came.
        seed: Of the ids; the same seed makes the same ids.
    """

    ok: bool
    lost: tuple[str, ...]
    unexpected: Mapping[str, int]
    duplicated: Mapping[str, int]
    allowed: int | None
    sent: int
    arrived: int
    complete: bool
    seed: int

    @property
    def surplus(self) -> int:
        """Arrivals that repeat an earlier one."""
        return sum(self.duplicated.values())

    def __str__(self) -> str:
        limit = "any number" if self.allowed is None else str(self.allowed)
        lines = [
            f"{'ok' if self.ok else 'NOT OK'}: sent {self.sent}, arrived {self.arrived}, "
            f"lost {len(self.lost)}, unexpected {sum(self.unexpected.values())}, "
            f"duplicated {self.surplus} (allowed: {limit}); seed {self.seed}"
        ]
        if not self.complete:
            lines.append("  the end marker never came: reading stopped too early, or it is lost")
        if self.lost:
            lines.append(f"  lost: {_some(self.lost)}")
        if self.unexpected:
            lines.append(f"  unexpected: {_some(_times(self.unexpected))}")
        if self.duplicated:
            extra = {name: 1 + more for name, more in self.duplicated.items()}
            lines.append(f"  duplicated: {_some(_times(extra))}")
        return "\n".join(lines)

    def require(self) -> Verdict:
        """This verdict if it is good.

        Raises:
            AssertionError: the whole report.
        """
        if not self.ok:
            raise AssertionError(str(self))
        return self


@frozen
class Oracle:
    """N unique ids from a seed, and the end marker that follows them.

    Args:
        size: how many ids.
        seed: the same seed gives the same ids; two oracles of different seeds share none.
    """

    size: int
    seed: int
    ids: tuple[str, ...] = field(init=False, repr=False)
    end: str = field(init=False)

    @ids.default
    def _make_ids(self) -> tuple[str, ...]:
        # The number keeps them unique and readable, the tail tells one run's ids from another's.
        chance = random.Random(self.seed)
        return tuple(f"{number:07d}-{chance.getrandbits(40):010x}" for number in range(self.size))

    @end.default
    def _make_end(self) -> str:
        return f"end-{self.seed}"

    def judge(
        self, arrived: Iterable[str], *, duplicates: int | None = 0, complete: bool = True
    ) -> Verdict:
        """Compare arrivals, as a multiset, with what went in; end markers do not count.

        Args:
            arrived: an id for each arrival.
            duplicates: surplus arrivals allowed; None allows any number.
            complete: pass False if the end was not reached.
        """
        counts = Counter(arrived)
        counts.pop(self.end, None)
        known = frozenset(self.ids)
        lost = tuple(name for name in self.ids if not counts[name])
        unexpected = {name: times for name, times in counts.items() if name not in known}
        surplus = {n: times - 1 for n, times in counts.items() if n in known and times > 1}
        within = duplicates is None or sum(surplus.values()) <= duplicates
        return Verdict(
            ok=complete and not lost and not unexpected and within,
            lost=lost,
            unexpected=unexpected,
            duplicated=surplus,
            allowed=duplicates,
            sent=len(self.ids),
            arrived=counts.total(),
            complete=complete,
            seed=self.seed,
        )

    def watch(
        self,
        receive: Callable[[], Iterable[str]],
        *,
        quiet: float,
        within: float,
        duplicates: int | None = 0,
        pause: float = 0.05,
    ) -> Verdict:
        """Read until nothing has come for `quiet` seconds after the end marker, then judge.

        Args:
            receive: what has arrived since it was last asked, end marker included; may block for
                a moment, not for long.
            quiet: how long after the end marker nothing may come.
            within: seconds after which reading stops, whatever has come.
            duplicates: see `judge`.
            pause: between two questions when nothing has come.
        """
        seen: list[str] = []
        ended = False
        deadline = time.monotonic() + within
        last_arrival = time.monotonic()
        while (now := time.monotonic()) < deadline:
            fresh = list(receive())
            if fresh:
                seen += fresh
                ended = ended or self.end in fresh
                last_arrival = time.monotonic()
            elif ended and now - last_arrival >= quiet:
                break
            else:
                time.sleep(pause)
        return self.judge(seen, duplicates=duplicates, complete=ended)


def _times(counts: Mapping[str, int]) -> list[str]:
    return [name if times == 1 else f"{name} x{times}" for name, times in counts.items()]


def _some(names: Iterable[str]) -> str:
    shown = list(names)
    more = len(shown) - SHOWN
    return ", ".join(shown[:SHOWN]) + (f" and {more} more" if more > 0 else "")
