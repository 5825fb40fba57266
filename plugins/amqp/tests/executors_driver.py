"""A driver of a small cluster: one query receives on its executors, the other reads the spool."""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from penstock.conformance import processes
from penstock.conformance.waiting import until
from penstock.spark.queues.segments import segments
from penstock.spark.session import session

RECEIVERS = 2


def connected(port: int) -> list[int]:
    """The processes below this one that have a connection to a port."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    lines += Path("/proc/net/tcp6").read_text().splitlines()[1:]
    fields = [line.split() for line in lines]
    sockets = {f"socket:[{f[9]}]" for f in fields if f[3] == "01" and f[2].endswith(f":{port:04X}")}
    return [pid for pid in processes.tree(os.getpid()) if sockets & files(pid)]


def files(pid: int) -> set[str]:
    found = set()
    with suppress(OSError):  # a process that ends meanwhile
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found


def executor(pid: int) -> int | None:
    """The executor that a process belongs to."""
    above: int | None = pid
    while above is not None and above != os.getpid():
        with suppress(OSError):
            if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{above}/cmdline").read_bytes():
                return above
        above = processes.parent(above)
    return None


def main(folder: Path, url: str, queue: str, count: int) -> None:
    spark = session(master="local-cluster[2,1,1024]", name="executors")
    port, inbox = urlsplit(url).port or 5672, folder / "spool" / "inbox"
    shared = {
        "url": url,
        "queue": queue,
        "delivery": "pessimistic",
        "unique_ids": "true",
        "state": str(folder / "spool"),
        "max_rows": "500",
    }

    def stream(part: str, **options: str):
        reading = spark.readStream.format("penstock.amqp").options(**shared, **options)
        return reading.load().writeStream.option("checkpointLocation", str(folder / part))

    filling = stream("fill", spool="fill", receivers=str(RECEIVERS)).format("noop").start()
    seats: set[int | None] = set()

    def received() -> bool:
        seats.update(executor(pid) for pid in connected(port))
        spooled = sum(segment.rows for segment in segments(inbox))
        return len(seats) >= RECEIVERS and spooled >= count

    until(received, within=120, why="all receivers are connected, and all is in the spool")
    filling.stop()
    until(lambda: not connected(port), within=60, why="no connection is left")

    seen: list[str] = []

    def keep(rows, number):
        seen.extend(row.id for row in rows.select("id").collect())

    reading = stream("read", spool="read", checkpoint=str(folder / "read")).foreachBatch(keep)
    reading.trigger(availableNow=True).start().awaitTermination()
    until(lambda: not segments(inbox), within=60, why="no segment is left")
    told = {"ids": seen, "executors": len(seats - {None}), "elsewhere": None in seats}
    (folder / "seen.json").write_text(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
