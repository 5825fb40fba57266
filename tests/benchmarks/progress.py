"""How fast a stream was, from the progress that its query tells."""

import json
import math
from datetime import datetime


def steady(batches: list[dict], held: float = math.inf, first: int = 1) -> float:
    """Messages a second after the `first` batches, without those that were received before.

    Those are at most what may be held unacknowledged, and what was there when the batch after
    them was planned.
    """
    said = json.loads(batches[first]["sources"][0]["latestOffset"])
    rows = [batch["numInputRows"] for batch in batches]
    before = sum(rows[: first - 1]) + min(held, sum(rows[first - 1 : first + 1]) + said["ready"])
    return (sum(rows) - before) / (end_of(batches[-1]) - end_of(batches[first - 1]))


def from_first_plan(batches: list[dict]) -> float:
    """Messages a second since the first batch was planned, without those received by then.

    For receivers that run ahead of Spark: what they have received when the first batch ends would
    be much, and most of it is still to go through Spark.
    """
    first = batches[0]
    before = first["numInputRows"] + json.loads(first["sources"][0]["latestOffset"])["ready"]
    total = sum(batch["numInputRows"] for batch in batches)
    planned = _after(first, "latestOffset")
    return (total - before) / (end_of(batches[-1]) - planned)


def end_of(batch: dict) -> float:
    """When a batch of a query's progress was done, in seconds."""
    return _after(batch, "triggerExecution")


def _after(batch: dict, part: str) -> float:
    began = datetime.fromisoformat(batch["timestamp"]).timestamp()
    return began + batch["durationMs"][part] / 1000
