"""Other people's clients: a Java producer's partitions, and kcat both ways."""

import os
import subprocess
import uuid
from collections import defaultdict

import pyarrow as pa
import pytest

from penstock.contracts import Batch, Context
from penstock_kafka.sink import KafkaSink
from penstock_kafka.source import KafkaSource
from tests.brokers import jars
from tests.brokers.server import program

from .conftest import envelopes, witness

pytestmark = pytest.mark.server
KEYS = [f"key-{n}".encode() for n in range(300)] + ["grüße".encode(), b"", b"\x00\xff\x80"]

JAVA = """
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Send {
    public static void main(String[] given) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given[0]);
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        try (Producer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            for (String line : Files.readAllLines(Path.of(given[2]))) {
                byte[] key = HexFormat.of().parseHex(line);
                producer.send(new ProducerRecord<>(given[1], key, key)).get();
            }
        }
    }
}
"""


def layout(kafka, topic):
    found = defaultdict(set)
    for message in witness(kafka.address, topic):
        found[message.partition()].add(message.key())
    return dict(found)


def write(kafka, topic, rows):
    made = KafkaSink(servers=kafka.address, topic=topic)
    batch = Batch(Context(query=str(uuid.uuid4()), node="kafka"), 0)
    writer = made.open(batch, 0, 0, made.accepts(rows.schema))
    writer.write(rows)
    return writer.close()


def test_a_java_producer_puts_every_key_into_the_same_partition(kafka, new_topic, tmp_path):
    ours, theirs = new_topic(7), new_topic(7)
    write(kafka, ours, envelopes(KEYS, keys=KEYS))
    (tmp_path / "Send.java").write_text(JAVA)
    (tmp_path / "keys").write_text("\n".join(key.hex() for key in KEYS) + "\n")
    command = [jars.java(), "-cp", jars.class_path(jars.KAFKA), str(tmp_path / "Send.java")]
    subprocess.run(
        [*command, kafka.address, theirs, str(tmp_path / "keys")],
        check=True,
        timeout=120,
        capture_output=True,
    )
    assert len(layout(kafka, ours)) == 7
    assert layout(kafka, ours) == layout(kafka, theirs)


def kcat(kafka, *arguments, given=None):
    command = [program("kcat", "kcat"), "-b", kafka.address, *arguments]
    env = {**os.environ, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        command, input=given, capture_output=True, timeout=60, check=True, env=env
    )
    return done.stdout.decode()


def test_kcat_reads_what_we_write(kafka, new_topic):
    topic = new_topic()
    rows = envelopes(
        [b"one", b"two"], keys=[b"a", b"b"], headers=[[{"key": "h", "value": b"1"}], None]
    )
    assert write(kafka, topic, rows).rows == 2
    said = kcat(kafka, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%k=%s %h\\n")
    assert [line.strip() for line in said.splitlines()] == ["a=one h=1", "b=two"]


def test_we_read_what_kcat_writes(kafka, new_topic):
    topic = new_topic()
    kcat(kafka, "-P", "-t", topic, "-K", ":", "-H", "h=1", given=b"a:one\nb:two\n")
    made = KafkaSource(servers=kafka.address, topics=[topic])
    planner = made.planner(Context())
    batches = [
        rows
        for part in planner.plan(planner.initial(), planner.final())
        for rows in made.read(part)
    ]
    planner.close()
    rows = pa.Table.from_batches(batches).to_pylist()
    assert [(r["key"], r["value"]) for r in rows] == [(b"a", b"one"), (b"b", b"two")]
    assert rows[0]["headers"] == [{"key": "h", "value": b"1"}]
