"""Queues: our sources and sinks against bare clients on the same broker, in one run.

    python -m tests.benchmarks queues [amqp-source] [amqp-source-2] [amqp-source-classic]
                                      [amqp-source-2-classic] [amqp-sink-confirms] [amqp-memory]
                                      [jms-receive] [jms-receive-2] [jms-send]

Those of JMS are in `jms`. Both sides leave out how they begin: a stream what it has received before
its first batch ends, or with receivers apart before that is planned, the bare loop its first
messages. The queue is a quorum queue unless the row says classic: RabbitMQ's safe kind. A classic
one spends more on messages that wait for their acknowledgement the more they are. The broker's log
holds all of a row's messages in memory: else every third run, of one side or the other, would read
from its files, for which the broker takes twice the time.
PENSTOCK_BENCH_ROWS sets how many messages each run moves.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import pika
import pyarrow as pa

from penstock.conformance import processes
from penstock.contracts import Batch, Context, Secret
from penstock.spark.session import session
from penstock_amqp.sink import AmqpSink
from tests.benchmarks import jms
from tests.benchmarks.measure import interleaved, row
from tests.benchmarks.progress import from_first_plan, steady
from tests.brokers.rabbitmq import RabbitMQ

ROWS = int(os.environ.get("PENSTOCK_BENCH_ROWS", "600000"))
PAIRS = int(os.environ.get("PENSTOCK_BENCH_PAIRS", "5"))
WARM = 2
"""Runs of each side before any counts: until then Spark's Java compiles."""
IN_MEMORY = {
    "raft.wal_max_size_bytes": str(8 * 10**9),
    "vm_memory_high_watermark.absolute": "8GB",
}
SIZE = 200
MOST = 20_000
"""Rows in a batch: as many as the bare loop lets the broker send ahead."""
NAMES = (
    "amqp-source",
    "amqp-source-2",
    "amqp-source-classic",
    "amqp-source-2-classic",
    "amqp-sink-confirms",
    "amqp-memory",
    "jms-receive",
    "jms-receive-2",
    "jms-send",
)
FIRST = 20_000
"""Messages of the bare loop that do not count."""
FEW, MANY = 50_000, 1_000_000
"""Messages that wait while the reader's memory is measured."""
READERS = (b"python_streaming_source_runner", b"penstock.spark.queues.child")

BARE = """
import json, sys, time, pika
url, queue, rows, first = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
channel.basic_qos(prefetch_count=20000)
seen = 0
def got(channel, method, properties, body):
    global seen, began
    seen += 1
    if seen == first:
        began = time.perf_counter()
    if seen % 1000 == 0 or seen == rows:
        channel.basic_ack(method.delivery_tag, multiple=True)
    if seen == rows:
        channel.stop_consuming()
channel.basic_consume(queue, got)
cpu = time.process_time()
channel.start_consuming()
took = time.perf_counter() - began
print(json.dumps({"rate": (rows - first) / took, "cpu": (time.process_time() - cpu) * 1e6 / rows}))
connection.close()
"""


class Bench:
    """One broker and one Spark session for all rows."""

    def __init__(self, broker: RabbitMQ, folder: Path) -> None:
        self.broker = broker
        self.folder = folder
        self.spark = session("local[2]", "bench")
        self.kind = "quorum"
        self.cpu: dict[str, list[float]] = {}

    def declared(self) -> str:
        queue = f"bench-{uuid.uuid4().hex[:8]}"
        connection = pika.BlockingConnection(pika.URLParameters(self.broker.url))
        arguments = {"x-queue-type": self.kind}
        connection.channel().queue_declare(queue, durable=True, arguments=arguments)
        connection.close()
        return queue

    def filled(self, rows: int = ROWS) -> str:
        queue = self.declared()
        sink = AmqpSink(url=Secret(self.broker.url), routing_key=queue)
        schema = pa.schema([("value", pa.binary()), ("id", pa.string())])
        writer = sink.open(Batch(Context(query=queue), 0), 0, 0, schema)
        for at in range(0, rows, 10_000):
            count = min(10_000, rows - at)
            ids = [f"{queue}-{n}" for n in range(at, at + count)]
            columns = [pa.array([b"x" * SIZE] * count), pa.array(ids)]
            writer.write(pa.RecordBatch.from_arrays(columns, schema=schema))
        writer.close()
        return queue

    def drop(self, queue: str) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(self.broker.url))
        connection.channel().queue_delete(queue)
        connection.close()

    def bare(self) -> float:
        queue = self.filled()
        command = [sys.executable, "-c", BARE, self.broker.url, queue, str(ROWS), str(FIRST)]
        done = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        self.drop(queue)
        self.cpu.setdefault("peer", []).append(done["cpu"])
        return done["rate"]

    def ours(self, **options: str) -> float:
        queue = self.filled()
        place = self.folder / queue
        given = {"url": self.broker.url, "queue": queue, "checkpoint": str(place), **options}
        given["max_rows"] = str(MOST)
        stream = self.spark.readStream.format("penstock.amqp").options(**given).load()
        writing = stream.writeStream.format("noop").option("checkpointLocation", str(place))
        with jms.Meter(self.broker.pids) as meter:
            query = writing.trigger(availableNow=True).start()
            query.awaitTermination()
        self.drop(queue)
        full = [p for p in query.recentProgress if p["numInputRows"]]
        rows = sum(p["numInputRows"] for p in full)
        assert rows == ROWS, f"{rows} of {ROWS} rows"
        self.cpu.setdefault("ours", []).append(meter.seconds * 1e6 / ROWS)
        if given.get("delivery") == "pessimistic":
            return from_first_plan(full)
        return steady(full)

    def source(self, name: str) -> None:
        options = {"delivery": "pessimistic", "receivers": "2"} if "-2" in name else {}
        self.kind = "classic" if name.endswith("-classic") else "quorum"
        pair = interleaved(lambda: self.ours(**options), self.bare, pairs=PAIRS, warm=WARM)
        self.report(name, pair, **options)

    def report(self, name: str, pair: object, **more: object) -> None:
        median = {who: round(sorted(all_)[len(all_) // 2], 1) for who, all_ in self.cpu.items()}
        self.cpu = {}
        row(
            name,
            pair,
            "messages/s",
            cpu_seconds_per_million=median,
            rows=ROWS,
            max_rows=MOST,
            queue=self.kind,
            **more,
        )

    def per_message_confirms(self, rows: int = 2000) -> float:
        queue = self.declared()
        connection = pika.BlockingConnection(pika.URLParameters(self.broker.url))
        channel = connection.channel()
        channel.confirm_delivery()
        made = pika.BasicProperties(delivery_mode=2)
        began = time.perf_counter()
        for _ in range(rows):
            channel.basic_publish("", queue, b"x" * SIZE, made, mandatory=True)
        took = time.perf_counter() - began
        connection.close()
        return rows / took

    def written(self, rows: int = 40_000) -> float:
        queue = self.declared()
        frame = self.spark.range(0, rows, 1, 1).selectExpr(
            f"cast(repeat('x', {SIZE}) as binary) as value", "cast(id as string) as id"
        )
        writer = frame.write.format("penstock.amqp").options(url=self.broker.url, routing_key=queue)
        began = time.perf_counter()
        writer.mode("append").save()
        return rows / (time.perf_counter() - began)

    def memory(self, delivery: str) -> None:
        """Peak memory of the reader and its receivers, with few and with many messages waiting."""
        peaks = {}
        for rows in (FEW, MANY):
            queue = self.filled(rows)
            place = self.folder / queue
            given = {"url": self.broker.url, "queue": queue, "checkpoint": str(place)}
            given["delivery"] = delivery
            stream = self.spark.readStream.format("penstock.amqp").options(**given).load()
            query = (
                stream.writeStream.format("noop")
                .option("checkpointLocation", str(place))
                .trigger(availableNow=True)
                .start()
            )
            peak = 0
            while query.isActive:
                peak = max(peak, sum(map(_resident, processes.tree(os.getpid()))))
                time.sleep(0.2)
            peaks[rows] = round(peak / 2**20, 1)
        figure = {"bench": "amqp-memory", "delivery": delivery, "reader_peak_mib": peaks}
        figure |= {"ratio": round(peaks[MANY] / peaks[FEW], 2), "unit": "peak of many / of few"}
        print(json.dumps(figure), flush=True)


def _resident(pid: int) -> int:
    """The resident bytes of a stream reader or of its receiver; 0 for any other process."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        if not any(name in command for name in READERS):
            return 0
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def main(wanted: list[str]) -> None:
    chosen = wanted or list(NAMES)
    if others := [name for name in chosen if name.startswith("jms-")]:
        jms.main(others)
    if rows := [name for name in chosen if name not in others]:
        amqp(rows)


def amqp(chosen: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, RabbitMQ(IN_MEMORY) as broker:
        bench = Bench(broker, Path(folder))
        for name in chosen:
            if name.startswith("amqp-source"):
                bench.source(name)
        if "amqp-sink-confirms" in chosen:
            pair = interleaved(bench.written, bench.per_message_confirms, pairs=PAIRS)
            row("amqp-sink-confirms", pair, "messages/s")
        if "amqp-memory" in chosen:
            bench.memory("optimistic")
            bench.memory("pessimistic")
        bench.spark.stop()
