"""A running pipeline: what it does, how far behind it is, and how to stop it cleanly."""

from __future__ import annotations

import json
import shutil
import time
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from penstock.contracts.errors import PenstockError, RunError
from penstock.pipeline.counts import Count
from penstock.pipeline.plan import Plan
from penstock.registry import tell
from penstock.spark.checkpoint import Checkpoint
from penstock.spark.commitlog import CommitLog
from penstock.spark.drain import Drain
from penstock.spark.failures import from_spark

_STOP_WITHIN = 60.0


class Handle:
    """What `run` returns."""

    def __init__(
        self,
        plan: Plan,
        query: StreamingQuery,
        drain: Drain,
        checkpoint: Checkpoint,
        temporary: str | None = None,
    ) -> None:
        self.plan = plan
        self.query = query
        self.checkpoint = checkpoint
        self._drain = drain
        self._temporary = temporary
        self._began = time.monotonic()
        self._told = False

    @property
    def running(self) -> bool:
        """Whether the query is still at work."""
        return bool(self.query.isActive)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; False if it has not come within `timeout` seconds.

        Raises:
            RunError: the pipeline failed, with what its connector or function said.
        """
        try:
            ended = self.query.awaitTermination(timeout)  # type: ignore[arg-type]
        except StreamingQueryException as error:
            self._ended(failure := self._failure(error))
            raise failure from None
        if timeout is not None and not ended:
            return False
        self._ended(None)
        return True

    def _failure(self, error: StreamingQueryException) -> PenstockError:
        known = self._drain.error
        return known if isinstance(known, PenstockError) else from_spark(error)

    def _ended(self, error: PenstockError | None) -> None:
        if self._told:
            return
        self._told = True
        name = self.plan.graph.name
        if error is not None:
            tell("failed", pipeline=name, error=error)
        else:
            tell("stopped", pipeline=name)
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def stop(self, within: float = _STOP_WITHIN) -> None:
        """Finish the batch at work, let Spark commit it, then stop. Idempotent.

        Raises:
            RunError: the batch was not finished in time, or the pipeline had failed.
        """
        if self.query.isActive:
            if not self._drain.hold(within):
                raise RunError(
                    f"the batch at work did not finish within {within:g} s",
                    who=self.plan.graph.name,
                    fix="call stop again with more time, or kill it: it will be replayed",
                )
            self._await_commit(within)
            self.query.stop()
            self._drain.close()
        self.wait()

    def _await_commit(self, within: float) -> None:
        """Spark writes its commit just after the drain returns; stopping sooner redoes a batch."""
        done = self._drain.last.get("batch")
        if done is None:
            return
        log, deadline = CommitLog(self.checkpoint.location), time.monotonic() + within
        while self.query.isActive and time.monotonic() < deadline:
            committed = log.committed()
            if committed is not None and committed >= done:
                return
            time.sleep(0.005)

    def counts(self) -> dict[str, Count]:
        """Records in and out, errors, skipped and retried, by node, since the start."""
        return dict(self._drain.totals.stages)

    def sources(self) -> dict[str, dict[str, Any]]:
        """What each source says of itself, by node, as of the last batch.

        All say `lag`; a queue also `depth`, `ready`, `unacknowledged`, `received`, `redelivered`,
        `reconnects` and, with a spool, `spool_bytes`.
        """
        found: dict[str, dict[str, Any]] = {}
        progress = self.query.lastProgress
        for source in progress["sources"] if progress else []:
            said = _parsed(source.get("latestOffset"))
            if isinstance(said, dict) and "lag" in said:
                name = str(said.pop("node", "source"))
                found[name] = said
        return found

    def lag(self) -> dict[str, dict[str, int]]:
        """What each source has not read yet, by part, as of the last batch."""
        return {name: said["lag"] for name, said in self.sources().items()}

    def late(self) -> int:
        """Records that came after the watermark and were dropped, in the batches Spark recalls."""
        return sum(
            int(operator.get("numRowsDroppedByWatermark", 0))
            for progress in self.query.recentProgress
            for operator in progress["stateOperators"]
        )

    def progress(self) -> dict[str, Any]:
        """All of it as plain values: what the live view and `--json` show."""
        seconds = max(time.monotonic() - self._began, 1e-9)
        sources = self.sources()
        nodes = {}
        for name, count in self.counts().items():
            nodes[name] = {
                "in": count.rows_in,
                "out": count.rows_out,
                "errors": count.errors,
                "skipped": count.skipped,
                "retried": count.retried,
                "rate": max(count.rows_in, count.rows_out) / seconds,
            }
        return {
            "pipeline": self.plan.graph.name,
            "running": self.running,
            "batch": self._drain.last.get("batch"),
            "seconds": seconds,
            "nodes": nodes,
            "lag": {name: said["lag"] for name, said in sources.items()},
            "sources": sources,
            "late": self.late(),
        }


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text
