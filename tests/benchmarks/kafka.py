"""Kafka against Spark's own connector, on PySpark 4.2, in one Spark session and one broker.

`python -m tests.benchmarks kafka [ROW ...]`. Where PySpark is another version an environment with
4.2 is made first, in the cache beside the jars; both sides then run in it.
"""

import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pyspark
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from penstock.conformance import processes
from tests.benchmarks.measure import cpu_seconds, interleaved, row
from tests.benchmarks.progress import end_of
from tests.brokers import jars
from tests.brokers.kafka import Kafka
from tests.packaging import wheels
from tests.packaging.wheels import uv

PEER = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
    "org.apache.spark:spark-avro_2.13:4.1.1",
)
PAIRS = 7
WARM = 8
"""Runs of each side before any counts: until then Java compiles more than it reads."""
PARTITIONS = 4
SMALL, LARGE = 1_000_000, 400_000
LONG = 4
"""So many times as much in the rows that end in -long: what a job costs to begin counts less."""
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "total", "type": "double"},
        {"name": "paid", "type": "boolean"},
        {"name": "city", "type": "string"},
        {"name": "count", "type": "int"},
    ],
}
COLUMNS = "id LONG, customer STRING, total DOUBLE, paid BOOLEAN, city STRING, count INT"


def main(wanted: list[str]) -> None:
    if not pyspark.__version__.startswith("4.2"):
        sys.exit(_elsewhere(wanted))
    rows = {
        "read-100B": lambda: _read("read-100B", 100, SMALL),
        "read-1KB": lambda: _read("read-1KB", 1000, LARGE),
        "read-100B-long": lambda: _read("read-100B-long", 100, LONG * SMALL),
        "read-1KB-long": lambda: _read("read-1KB-long", 1000, LONG * LARGE),
        "read-avro": lambda: read_avro("read-avro", SMALL),
        "read-avro-long": lambda: read_avro("read-avro-long", LONG * SMALL),
        "read-share": read_share,
        "write-100B": lambda: _write("write-100B", "at-least-once"),
        "write-100B-exactly-once": lambda: _write("write-100B-exactly-once", "exactly-once"),
        "stream-batch-ms": lambda: _stream("stream-batch-ms", same=False),
        "stream-batch-ms-same": lambda: _stream("stream-batch-ms-same", same=True),
        "read-200-partitions": read_200_partitions,
    }
    try:
        for name in wanted or rows:
            rows[name]()
    finally:
        broker().stop()


def _elsewhere(wanted: list[str]) -> int:
    root = Path(__file__).parents[2]
    place = jars.cache() / "kafka-bench-4.2"
    python = place / "bin" / "python"
    if not python.exists():
        uv("venv", "--quiet", "--python", sys.executable, str(place))
    parts = [f"{root}/core[avro,conformance,registry]", f"{root}/plugins/kafka"]
    needed = [str(wheels.pyspark("4.2")), "fastavro", "cryptography"]
    needed += [word for part in parts for word in ("-e", part)]
    uv("pip", "install", "--quiet", "--python", str(python), *needed)
    env = {**os.environ, "PYSPARK_PYTHON": str(python)}
    command = [python, "-m", "tests.benchmarks", "kafka", *wanted]
    return subprocess.run(command, cwd=root, env=env, check=False).returncode


@cache
def broker() -> Kafka:
    return Kafka(heap="1g", tuned=False).start()


@cache
def spark() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    made = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "3g")
        # As our page on sessions advises; Spark's connector has no Python in its tasks.
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.jars", ",".join(map(str, jars.fetch(PEER, transitive=False))))
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made


@cache
def filled(size: int, count: int, partitions: int = PARTITIONS) -> str:
    """A topic with so many records of so many bytes."""
    body = os.urandom(size - 10)
    return _fill((b"%010d" % n + body for n in range(count)), partitions)


def _fill(values: Iterable[bytes], partitions: int = PARTITIONS) -> str:
    topic = broker().create_topic(f"bench-{uuid.uuid4().hex[:8]}", partitions)
    producer = Producer(
        {
            "bootstrap.servers": broker().address,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 1_000_000,
        }
    )
    for number, value in enumerate(values):
        while True:
            try:
                producer.produce(topic, value, b"%010d" % number, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0
    return topic


def theirs(topic: str) -> DataFrame:
    reader = spark().read.format("kafka").option("kafka.bootstrap.servers", broker().address)
    # The best of what was tried: large fetches, and as many records per poll as they bring.
    reader = reader.option("kafka.max.partition.fetch.bytes", str(8 * 1024 * 1024))
    reader = reader.option("kafka.fetch.max.bytes", str(64 * 1024 * 1024))
    reader = reader.option("kafka.max.poll.records", "10000")
    reader = reader.option("kafka.receive.buffer.bytes", str(1024 * 1024))
    # By default the end of every partition costs half a second.
    reader = reader.option("kafka.fetch.max.wait.ms", "20")
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()


def ours(topic: str, columns: str | None = None, **options: str) -> DataFrame:
    # The columns of Spark's own source, which leaves headers out unless asked for them.
    given = {"servers": broker().address, "topics": topic, "headers": "false"}
    given |= {"columns": "spark"} if columns is None else {}
    given |= options
    reader = spark().read.format("penstock.kafka").options(**given)
    return (reader.schema(columns) if columns else reader).load()


def noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


class Side:
    """One side's runs: rows a second, CPU seconds of the whole process tree, the first run."""

    def __init__(self, work: Callable[[], object], count: int) -> None:
        self.work, self.count = work, count
        self.first: float | None = None
        self.cpu: list[float] = []

    def __call__(self) -> float:
        return self.count / self.seconds()

    def seconds(self) -> float:
        return self._measured()[0]

    def own(self) -> float:
        """The figure that the work itself returns."""
        return self._measured()[1]

    def _measured(self) -> tuple[float, Any]:
        before, began = self._cpu(), time.perf_counter()
        said = self.work()
        took = time.perf_counter() - began
        self.cpu.append((self._cpu() - before) * 1e6 / self.count)
        if self.first is None:
            self.first = took
            self.cpu.clear()
        return took, said

    def _cpu(self) -> float:
        served = set(broker().pids)
        return cpu_seconds([pid for pid in processes.tree(os.getpid()) if pid not in served])

    def told(self) -> dict[str, float]:
        return {
            "cold_s": round(self.first or 0, 3),
            "cpu_s_per_million": round(statistics.median(self.cpu), 2),
        }


def _compare(name: str, mine: Side, peer: Side, **more: object) -> None:
    pair = interleaved(mine, peer, pairs=PAIRS, warm=WARM)
    row(name, pair, "records/s", ours_more=mine.told(), peer_more=peer.told(), **more)


def _compare_times(name: str, mine: Side, peer: Side) -> None:
    """The same where the time of a run is told, not its records a second."""
    pair = interleaved(mine.seconds, peer.seconds, pairs=PAIRS, warm=WARM)
    row(name, pair, "s, less is better", ours_more=mine.told(), peer_more=peer.told())


def _read(name: str, size: int, count: int) -> None:
    topic = filled(size, count)
    mine, peer = (Side(lambda read=read: noop(read(topic)), count) for read in (ours, theirs))
    _compare(name, mine, peer, records=count)


def read_avro(name: str, count: int) -> None:
    """Registry framing, six fields, the reader's schema given to both as a text; ours asks the
    registry for the writer's and decodes in the reader."""
    import fastavro
    from pyspark.sql.avro.functions import from_avro
    from pyspark.sql.functions import expr

    from core.tests.coders.registry_server import RegistryServer

    schema = fastavro.parse_schema(AVRO)
    with contextlib.closing(RegistryServer()) as registry:
        body = {"schema": json.dumps(AVRO)}
        made = registry.answer("POST", "/subjects/orders-value/versions", body)
        head = b"\0" + made["id"].to_bytes(4, "big")
        topic = _fill(_framed(schema, head, count))
        coder = {
            "coder": "avro",
            "coder.framing": "registry",
            "coder.registry.url": registry.url,
            "coder.schema": json.dumps(AVRO),
        }

        def peer() -> None:
            decoded = from_avro(expr("substring(value, 6)"), json.dumps(AVRO)).alias("r")
            noop(theirs(topic).select(decoded).select("r.*"))

        def mine() -> None:
            noop(ours(topic, COLUMNS, **coder))

        _compare(name, Side(mine, count), Side(peer, count), records=count)


def _framed(schema: dict, head: bytes, count: int) -> Iterator[bytes]:
    import fastavro

    made = []
    for number in range(100_000):
        out = io.BytesIO()
        out.write(head)
        record = {"id": number, "customer": f"customer {number % 999}", "total": number / 7}
        record |= {"paid": number % 2 == 0, "city": f"city {number % 77}", "count": number % 100}
        fastavro.schemaless_writer(out, schema, record)
        made.append(out.getvalue())
    return islice(cycle(made), count)


def read_share() -> None:
    """Against a loop of confluent-kafka's consume() in one process that drops the records."""
    topic = filled(1000, LARGE)
    _compare("read-share", Side(lambda: noop(ours(topic)), LARGE), Side(_bare(topic), LARGE))


def _bare(topic: str) -> Callable[[], None]:
    return lambda: consume_all(broker().address, topic, LARGE)


def consume_all(address: str, topic: str, count: int) -> None:
    """Take every record and drop it, with the settings our own reader has."""
    from penstock_kafka import fetch

    tuned = {**fetch.TUNED, **fetch.LARGE}
    consumer = Consumer({**tuned, "bootstrap.servers": address, "group.id": "bare"})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    left = count
    while left > 0:
        left -= sum(message.error() is None for message in consumer.consume(min(left, 20_000), 1))
    consumer.close()


def _write(name: str, delivery: str) -> None:
    """Keys and 100 B values from memory into a topic; the peer is at-least-once in both rows."""
    count = SMALL
    frame = (
        spark()
        .range(0, count, 1, 2)
        .selectExpr(
            "cast(lpad(id, 10, '0') as binary) key", "cast(rpad(id, 100, 'x') as binary) value"
        )
    )
    frame = frame.cache()
    frame.count()
    target = broker().create_topic(f"bench-{uuid.uuid4().hex[:8]}", PARTITIONS)

    def mine() -> None:
        writer = frame.write.format("penstock.kafka").mode("append")
        writer.options(servers=broker().address, topic=target, delivery=delivery).save()

    def peer() -> None:
        writer = frame.write.format("kafka").option("kafka.bootstrap.servers", broker().address)
        writer = writer.option("kafka.linger.ms", "20").option("kafka.batch.size", "1000000")
        writer = writer.option("kafka.compression.type", "lz4")
        writer = writer.option("kafka.buffer.memory", str(256 * 1024 * 1024))
        writer.option("topic", target).save()

    _compare(name, Side(mine, count), Side(peer, count))


def _stream(name: str, *, same: bool) -> None:
    """Milliseconds of a 1,000-row batch: a pipeline against Spark's source and noop sink.

    From the end of a query's first batch to that of its last. The checkpoint is written as our
    own sessions have it written, and for the peer as Spark does by itself, unless `same`.
    """
    import penstock as pen
    from penstock.spark.session import DEFAULTS
    from tests.benchmarks import discard

    discard.install()
    batches = 60
    topic = filled(100, batches * 1000, 2)
    manager = "spark.sql.streaming.checkpointFileManagerClass"

    def mine() -> float:
        spark().conf.set(manager, DEFAULTS[manager])
        flow = (
            pen.pipeline("ms")
            .source("kafka", servers=broker().address, topics=[topic], max_rows=1000)
            .bounded()
            .sink("discard")
        )
        with tempfile.TemporaryDirectory() as folder:
            return each_batch(flow.run(folder, spark=spark()).query)

    def peer() -> float:
        if not same:
            spark().conf.unset(manager)
        reader = spark().readStream.format("kafka").option("subscribe", topic)
        reader = reader.option("kafka.bootstrap.servers", broker().address)
        reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 1000)
        with tempfile.TemporaryDirectory() as folder:
            writer = reader.load().writeStream.format("noop").trigger(availableNow=True)
            query = writer.option("checkpointLocation", folder).start()
            query.awaitTermination()
            return each_batch(query)

    def each_batch(query: StreamingQuery) -> float:
        done = [p for p in query.recentProgress if p["numInputRows"] or p["batchId"]]
        assert len(done) >= batches, f"{len(done)} of {batches} batches"
        return (end_of(done[batches - 1]) - end_of(done[0])) * 1000 / (batches - 1)

    sides = Side(mine, batches * 1000), Side(peer, batches * 1000)
    pair = interleaved(*(side.own for side in sides), pairs=PAIRS, warm=WARM)
    told = dict(zip(("ours_more", "peer_more"), (side.told() for side in sides), strict=True))
    row(name, pair, "ms per batch, less is better", batches=batches, **told)


def read_200_partitions() -> None:
    count = 20_000
    topic = filled(100, count, 200)
    mine, peer = (Side(lambda read=read: noop(read(topic)), count) for read in (ours, theirs))
    _compare_times("read-200-partitions", mine, peer)
