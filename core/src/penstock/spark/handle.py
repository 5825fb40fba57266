"""A running pipeline: what it does, how far behind it is, and how to stop it cleanly."""

from __future__ import annotations

import json
import shutil
import threading
import time
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from penstock.contracts.errors import PenstockError, RunError
from penstock.pipeline.counts import Count
from penstock.pipeline.plan import Plan
from penstock.registry import tell
from penstock.spark.checkpoint import Checkpoint
from penstock.spark.commitlog import CommitLog
from penstock.spark.drain import Drain, Stopped
from penstock.spark.failures import from_spark
from penstock.spark.late import Late
from penstock.spark.signals import asked_to_stop

_STOP_WITHIN = 60.0
_LOOK_EVERY = 0.1


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
        self._end = threading.RLock()
        self._told = False
        self._late = Late()
        if any(getattr(stage.work, "stateful", False) for stage in plan):
            drain.before_batch = lambda: self._late.look(query)
        threading.Thread(target=self._watch, name="penstock-watch", daemon=True).start()

    @property
    def running(self) -> bool:
        """Whether the query is still at work."""
        return bool(self.query.isActive)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; False if it has not come within `timeout` seconds.

        On the main thread, SIGTERM or Ctrl-C during the wait finishes the batch at work, stops
        the pipeline and ends the wait; a second one does what it would do elsewhere.

        Raises:
            RunError: the pipeline failed, with what its connector or function said.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with asked_to_stop() as asked:
            while not self._await(_LOOK_EVERY if deadline is None else deadline - time.monotonic()):
                if asked:
                    self.stop(within=None)
                elif deadline is not None and time.monotonic() >= deadline:
                    return False
        return True

    def _await(self, seconds: float) -> bool:
        """Whether the query has ended within a look's time, and all have been told of it."""
        try:
            look = max(min(seconds, _LOOK_EVERY), 0.001)
            ended = self.query.awaitTermination(look)  # type: ignore[arg-type]
        except PySparkException as error:
            ended = True
            if (failure := self._failure(error)) is not None:
                self._ended(failure)
                raise failure from None
        if ended:
            self._ended(None)
        return bool(ended)

    def _watch(self) -> None:
        """Tell of the end even if nobody waits for it."""
        try:
            self.query.awaitTermination()
        except PySparkException as error:
            self._ended(self._failure(error))
        except (Py4JError, OSError) as error:  # Spark itself is gone
            self._ended(RunError(f"Spark is gone: {error}", who=self.plan.graph.name))
        else:
            self._ended(None)

    def _failure(self, error: BaseException) -> PenstockError | None:
        """What the query died of; None where it was we who sent its next batch away."""
        known = self._drain.error
        if isinstance(known, Stopped):
            return None
        return known if isinstance(known, PenstockError) else from_spark(error)

    def _ended(self, error: PenstockError | None) -> None:
        with self._end:
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

    def stop(self, within: float | None = _STOP_WITHIN) -> None:
        """Finish the batch at work, let Spark commit it, then stop. Idempotent.

        Args:
            within: Seconds that the batch is given; None: as long as it takes.

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
            # Spark waits for a batch that it has handed over, and cannot interrupt it.
            self._drain.close()
            self.query.stop()
        self.wait()

    def _await_commit(self, within: float | None) -> None:
        """Spark writes its commit just after the drain returns; stopping sooner redoes a batch."""
        done = self._drain.last.get("batch")
        if done is None:
            return
        log = CommitLog(self.checkpoint.location)
        deadline = None if within is None else time.monotonic() + within
        while self.query.isActive and (deadline is None or time.monotonic() < deadline):
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
        """Records that came after the watermark and were dropped, since the start."""
        self._late.look(self.query)
        return self._late.total

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
