"""The pipelines and command lines of the recipes run as their pages say, against real servers.

The Python on these pages is run by `test_examples`; a Schema Registry is a little one of ours.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from core.tests.coders.registry_server import running as registry_running
from penstock.conformance.waiting import until

RECIPES = Path(__file__).parents[3] / "sdk-docs" / "recipes"

# Each starts a Spark and a pipeline of its own, as a user would: half a minute and more.
pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]


def recipe(page, language, replaced):
    """The first block of a page, and its command lines, with places of this test's own."""
    text = (RECIPES / page).read_text()
    for written, here in replaced.items():
        assert written in text, f"{page} has no {written!r} any more"
        text = text.replace(written, str(here))
    [block, *_] = re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)
    return block, re.findall(r"^\$ (.+)$", text, re.M)


def penstock(command, folder, **variables):
    """Start a command line as a user would type it; what it says goes to the file `said`."""
    program, *arguments = shlex.split(command)
    assert program == "penstock"
    with (folder / "said").open("w") as said:
        return subprocess.Popen(
            [str(Path(sys.executable).with_name("penstock")), *arguments],
            cwd=folder,
            env={**os.environ, **variables},
            stdout=said,
            stderr=subprocess.STDOUT,
        )


def said(command, folder, **variables):
    """What a command line says that ends well."""
    process = penstock(command, folder, **variables)
    assert process.wait(240) == 0, (folder / "said").read_text()[-3000:]
    return (folder / "said").read_text()


@contextmanager
def running(command, folder, **variables):
    """While a pipeline runs; then it is told to stop, and must end well."""
    process = penstock(command, folder, **variables)
    words = folder / "said"

    def check():
        assert process.poll() is None, words.read_text()[-3000:]

    try:
        yield check
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, words.read_text()[-3000:]
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_rabbitmq_to_parquet(rabbitmq, tmp_path):
    queue = f"q-{uuid.uuid4().hex[:8]}"
    document, commands = recipe(
        "rabbitmq-to-parquet.md",
        "yaml",
        {"queue: orders": f"queue: {queue}", "/data/": f"{tmp_path}/"},
    )
    export, doctor, run = commands
    assert export.startswith("export AMQP_URL=")
    (tmp_path / "orders.yaml").write_text(document)
    connection = rabbitmq.connection()
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    for number in range(60):
        order = {"id": number, "customer": f"c{number % 3}", "total": number % 4}
        channel.basic_publish("", queue, json.dumps(order).encode())
    connection.close()

    assert "amqp answers" in said(doctor, tmp_path, AMQP_URL=rabbitmq.url)

    def found():
        check()
        files = [str(file) for file in (tmp_path / "orders").rglob("*.parquet")]
        read = ds.dataset(files, format="parquet") if files else None
        return [] if read is None else sorted(read.to_table(["id"])["id"].to_pylist())

    with running(run, tmp_path, AMQP_URL=rabbitmq.url) as check:
        until(lambda: len(found()) >= 45, within=120, why="the orders are in files")
        assert found() == [n for n in range(60) if n % 4]
    folders = {file.parent.name for file in (tmp_path / "orders").rglob("*.parquet")}
    assert folders == {"customer=c0", "customer=c1", "customer=c2"}
    connection = rabbitmq.connection()
    left = connection.channel().queue_declare(queue, passive=True).method.message_count
    connection.close()
    assert left == 0


def test_kafka_to_kafka(kafka, tmp_path):
    from confluent_kafka import Producer

    east, west = (f"{where}-{uuid.uuid4().hex[:8]}" for where in ("east", "west"))
    document, _ = recipe(
        "kafka-to-kafka.md",
        "yaml",
        {
            "[orders]": f"[{east}]",
            "topic: orders": f"topic: {west}",
            "east:9092": kafka.address,
            "west:9092": kafka.address,
        },
    )
    (tmp_path / "mirror.yaml").write_text(document)
    for topic in (east, west):
        kafka.create_topic(topic, 2)
    producer = Producer({"bootstrap.servers": kafka.address})
    sent = [(number % 2, b"k%d" % number, b"order %d" % number) for number in range(40)]
    for partition, key, value in sent:
        producer.produce(east, value, key, partition, headers={"n": key})
    assert producer.flush(20) == 0

    def found():
        check()
        return mirrored(kafka.address, west)

    with running("penstock run mirror.yaml --checkpoint state", tmp_path) as check:
        until(lambda: len(found()) >= len(sent), within=120, why="the topic is mirrored")
    got = mirrored(kafka.address, west)
    assert sorted((m.partition(), m.key(), m.value()) for m in got) == sorted(sent)
    assert all(m.headers() == [("n", m.key())] for m in got)


def mirrored(address, topic):
    """What an independent consumer sees of both partitions, committed only."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": f"witness-{uuid.uuid4().hex}",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    messages, ended = [], 0
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
        while ended < 2:
            message = consumer.poll(20)
            assert message is not None, "the broker says nothing"
            if message.error() is None:
                messages.append(message)
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended += 1
    finally:
        consumer.close()
    return messages


def test_sftp_file_for_file(sshd, tmp_path):
    out = sshd.files / "out"
    out.mkdir()
    document, _ = recipe(
        "sftp-file-for-file.md",
        "yaml",
        {
            "us@bank.example.org/out": f"{sshd.user}@{sshd.address}{out}",
            "archive: /out": f"archive: {out}",
            "/run/secrets/bank_key": sshd.private_key,
            "/etc/penstock/known_hosts": sshd.known_hosts,
            "/data/invoices": tmp_path / "invoices",
        },
    )
    (tmp_path / "invoices.yaml").write_text(document)
    an_hour_ago = time.time() - 3600
    for day in ("monday", "tuesday"):
        (out / f"{day}.csv").write_text(f"id,day\n1,{day}\n")
        os.utime(out / f"{day}.csv", (an_hour_ago, an_hour_ago))
    (out / "wednesday.csv").write_text("id,da")  # on its way: younger than min_age

    def archived():
        check()
        return sorted(path.name for path in (out / "done").rglob("*.csv"))

    with running("penstock run invoices.yaml --checkpoint state", tmp_path) as check:
        until(lambda: len(archived()) >= 2, within=120, why="the invoices are archived")
    came = {path.name: path.read_text() for path in (tmp_path / "invoices").glob("*.csv")}
    wanted = {f"{day}-checked.csv": f"id,day\n1,{day}\n" for day in ("monday", "tuesday")}
    assert came == wanted
    assert (out / "wednesday.csv").exists()


def test_registry_evolution(kafka, tmp_path):
    from confluent_kafka import Producer

    from penstock.coders.avro.coder import AvroCoder

    topic = f"orders-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": kafka.address})
    number, name = {"name": "id", "type": "int"}, {"name": "customer", "type": "string"}
    mail = {"name": "mail", "type": ["null", "string"], "default": None}
    versions = [
        ([number, name], {"id": 1, "customer": "ada"}),
        ([number | {"type": "long"}, name, mail], {"id": 2, "customer": "bob", "mail": "b@x.org"}),
    ]

    with registry_running() as registry:
        document, _ = recipe(
            "registry-evolution.md",
            "yaml",
            {
                "localhost:9092": kafka.address,
                "[orders]": f"[{topic}]",
                "https://registry.example.org": registry.url,
            },
        )
        (tmp_path / "orders.yaml").write_text(document)

        def send(fields, order):
            schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
            coder = AvroCoder(
                schema=schema,
                framing="registry",
                registry={"url": registry.url},
                subject="orders-value",
                register=True,
            )
            rows = pa.RecordBatch.from_pylist([order], schema=coder.schema())
            producer.produce(topic, coder.encode(rows).values[0].as_py())
            assert producer.flush(20) == 0

        def shown(order):
            check()
            return order["customer"] in (tmp_path / "said").read_text()

        with running("penstock run orders.yaml --checkpoint state", tmp_path) as check:
            for fields, order in versions:  # the second schema appears while the stream runs
                send(fields, order)
                until(lambda order=order: shown(order), within=120, why=f"{order} is shown")
        assert "b@x.org" in (tmp_path / "said").read_text()


def test_dead_letters(tmp_path):
    code, commands = recipe("dead-letters.md", "python", {})
    listing, showing, replaying = commands
    module = tmp_path / "letters.py"
    module.write_text(code.partition("handle = ")[0])
    write = (
        "import letters, pathlib; pathlib.Path('pipeline.yaml').write_text(letters.flow.to_yaml())"
    )
    subprocess.run([sys.executable, "-c", write], cwd=tmp_path, check=True)
    said("penstock run pipeline.yaml --checkpoint state", tmp_path)

    listed = json.loads(said(f"{listing} --json", tmp_path))
    assert len(listed) == 10
    assert "the number three again" in said(listing, tmp_path)
    shown = said(showing.replace("LETTER", listed[0]["letter"]), tmp_path)
    assert "ValueError" in shown
    assert '"customer"' in shown

    assert "0 replayed, 10 failed again" in said(replaying, tmp_path)
    module.write_text(module.read_text().replace("== 3", "== 33"))
    assert "10 replayed, 0 failed again" in said(replaying, tmp_path)
    assert "no dead letters wait" in said(listing, tmp_path)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", ["start.md", "concepts/pipelines.md"])
def test_yaml_that_needs_no_server(page, tmp_path):
    text = (RECIPES.parent / page).read_text()
    documents = re.findall(r"^```yaml\n(.*?)^```$", text, re.M | re.S)
    assert documents
    for document in documents:
        (tmp_path / "pipeline.yaml").write_text(document)
        assert "customer" in said("penstock run pipeline.yaml", tmp_path)


def test_a_table_of_a_database(spark, tmp_path):
    """Derby comes with Spark; its tables are files that one process at a time may open."""
    url, secret = f"jdbc:derby:{tmp_path}/db;create=true", tmp_path / "secret"
    secret.write_text("s3cret")
    orders = spark.createDataFrame([(1, "c-one"), (2, "c-two")], "id long, customer string")
    orders.write.format("jdbc").options(url=url, dbtable="orders").save()
    with pytest.raises(Exception, match="shutdown"):  # Derby says in this way that it is closed
        spark._jvm.java.sql.DriverManager.getConnection(f"jdbc:derby:{tmp_path}/db;shutdown=true")
    document, _ = recipe("../concepts/spark.md", "yaml", {"/run/secrets/orders": secret})
    (tmp_path / "orders.yaml").write_text(document)
    shown = said("penstock run orders.yaml", tmp_path, ORDERS_URL=url)
    assert "c-one" in shown
    assert "c-two" in shown
    assert "s3cret" not in shown
