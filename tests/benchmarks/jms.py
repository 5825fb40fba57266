"""JMS through Spark, against a bare JPype loop over the same client that commits every 1,000.

Both sides work on a real Artemis. Both leave out a first run, and the first messages of every run: a
fresh Java machine is slow for everyone, and each run has a fresh one for the client.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from itertools import accumulate

from penstock.conformance import processes
from tests.benchmarks.measure import Pair, cpu_seconds, interleaved, row
from tests.benchmarks.progress import steady
from tests.brokers.artemis import Artemis

MESSAGES = 600_000
"""Received: enough that the first seconds, in which Java compiles, do not decide."""
SENT = 240_000
"""Nobody takes them from the broker, whose memory must hold those of all runs."""
WARM = 10_000
"""Messages that are sent before any counts."""
FIRST = 120_000
"""Received before any counts: until then Java compiles the client's code, ours and theirs."""
SIZE = 200
COMMIT = 1_000
MOST = 60_000
"""Rows in a batch: about what comes in within a second."""
PAIRS = 3
MODES = {
    "jms-receive": {"delivery": "optimistic", "receivers": "1"},
    "jms-receive-2": {"delivery": "optimistic", "receivers": "2"},
    "jms-receive-spool": {"delivery": "pessimistic", "receivers": "1"},
}


def main(wanted: list[str]) -> None:
    for name in wanted or ["jms-receive", "jms-receive-2", "jms-send"]:
        with Artemis(heap="4g" if name == "jms-send" else "1g", tuned=False) as broker:
            if name == "jms-send":
                send(broker)
            else:
                receive(broker, name)


class Meter:
    """CPU seconds of this process and all below it, those that end meanwhile included."""

    def __init__(self, leave_out: list[int]) -> None:
        self._leave_out = set(leave_out)
        self._seen: dict[int, list[float]] = {}
        self._stop = threading.Event()

    def __enter__(self) -> "Meter":
        self._look()
        for used in self._seen.values():
            used[0] = used[1]  # what those who are here already had used before
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._look()

    @property
    def seconds(self) -> float:
        return sum(last - first for first, last in self._seen.values())

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            self._look()

    def _look(self) -> None:
        for pid in processes.tree(os.getpid()):
            if pid not in self._leave_out:
                used = self._seen.setdefault(pid, [0.0, 0.0])
                used[1] = max(used[1], cpu_seconds([pid]))  # 0 for one that has just ended


def connecting(broker: Artemis) -> dict[str, str]:
    jars = ",".join(map(str, broker.client_jars))
    return {"jars": jars, "url": broker.url, "user": broker.user, "password": broker.password}


def bare(what: str, broker: Artemis, queue: str, messages: int = MESSAGES) -> dict[str, float]:
    """Run one of the loops below in a process of its own."""
    said = json.dumps({**connecting(broker), "queue": queue, "messages": messages})
    command = [sys.executable, "-m", "tests.benchmarks.jms", what]
    done = subprocess.run(command, input=said, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def receive(broker: Artemis, name: str) -> None:
    from penstock.spark.session import session

    spark = session(master="local[2]", name="bench")
    cpu: dict[str, list[float]] = {"ours": [], "peer": []}

    def ours() -> float:
        queue = f"q-{uuid.uuid4().hex}"
        bare("fill", broker, queue)
        with tempfile.TemporaryDirectory() as folder, Meter(broker.pids) as meter:
            options = {**connecting(broker), **MODES[name], "queue": queue, "max_rows": str(MOST)}
            reading = spark.readStream.format("penstock.jms").options(**options, checkpoint=folder)
            writing = reading.load().writeStream.format("noop").option("checkpointLocation", folder)
            query = writing.trigger(availableNow=True).start()
            query.awaitTermination()
            batches = [p for p in query.recentProgress if p["numInputRows"]]
        total = sum(batch["numInputRows"] for batch in batches)
        assert total == MESSAGES, f"sent {MESSAGES}, read {total}"
        cpu["ours"].append(meter.seconds)
        optimistic = MODES[name]["delivery"] == "optimistic"
        ends = accumulate(batch["numInputRows"] for batch in batches)
        first = sum(end < FIRST for end in ends) + 1
        return steady(batches, held=MOST if optimistic else math.inf, first=first)

    def peer() -> float:
        queue = f"q-{uuid.uuid4().hex}"
        bare("fill", broker, queue)
        said = bare("receive", broker, queue)
        cpu["peer"].append(said["cpu"])
        return said["rate"]

    pair = interleaved(ours, peer, pairs=PAIRS, warm=1)
    spark.stop()
    _row(name, pair, cpu, MESSAGES, max_rows=MOST, left_out=FIRST, **MODES[name])


def send(broker: Artemis) -> None:
    from penstock.spark.session import session

    spark = session(master="local[2]", name="bench")
    cpu: dict[str, list[float]] = {"ours": [], "peer": []}
    frame = spark.range(0, SENT, 1, 2).selectExpr(f"cast(repeat('x', {SIZE}) as binary) value")

    def write(rows: int) -> float:
        options = {**connecting(broker), "queue": f"q-{uuid.uuid4().hex}"}
        began = time.perf_counter()
        frame.limit(rows).repartition(2).write.format("penstock.jms").options(**options).mode(
            "append"
        ).save()
        return time.perf_counter() - began

    def ours() -> float:
        write(WARM)
        with Meter(broker.pids) as meter:
            taken = write(SENT)
        cpu["ours"].append(meter.seconds)
        return SENT / taken

    def peer() -> float:
        said = bare("fill", broker, f"q-{uuid.uuid4().hex}", SENT)
        cpu["peer"].append(said["cpu"])
        return said["rate"]

    pair = interleaved(ours, peer, pairs=PAIRS, warm=0)
    spark.stop()
    _row("jms-send", pair, cpu, SENT)


def _row(name: str, pair: Pair, cpu: dict[str, list[float]], messages: int, **more: object) -> None:
    million = {side: round(min(all) / messages * 1e6, 1) for side, all in cpu.items()}
    row(name, pair, f"messages of {SIZE} B per second", cpu_seconds_per_million=million, **more)


def loop(what: str) -> None:
    """What one writes by hand."""
    import jpype

    given = json.load(sys.stdin)
    jpype.startJVM("-Xmx512m", classpath=given["jars"].split(","), convertStrings=True)
    factory = jpype.JClass("org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory")
    connection = factory(given["url"]).createConnection(given["user"], given["password"])
    connection.start()
    session = connection.createSession(True, 0)
    queue = session.createQueue(given["queue"])
    body = b"x" * SIZE
    one = _sender(session, queue, body) if what == "fill" else _receiver(session, queue)
    first = FIRST if what == "receive" else WARM
    began = time.perf_counter()
    for number in range(given["messages"]):
        if number == first:
            began = time.perf_counter()
        one()
        if number % COMMIT == COMMIT - 1:
            session.commit()
    rate = (given["messages"] - first) / (time.perf_counter() - began)
    print(json.dumps({"rate": rate, "cpu": time.process_time()}))
    connection.close()


def _sender(session, queue, body):
    producer = session.createProducer(queue)

    def one():
        message = session.createBytesMessage()
        message.writeBytes(body)
        producer.send(message)

    return one


def _receiver(session, queue):
    import jpype

    consumer = session.createConsumer(queue)

    def one():
        message = consumer.receive(10_000)
        into = jpype.JArray(jpype.JByte)(int(message.getBodyLength()))
        message.readBytes(into)
        return bytes(into)

    return one


if __name__ == "__main__":
    loop(sys.argv[1])
