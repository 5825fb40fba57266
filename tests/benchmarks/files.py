"""Files against their peers: Spark's own readers, the sftp client, paramiko, a plain loop.

`python -m tests.benchmarks files [ROW ...]`
"""

import contextlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import penstock as pen
from penstock_localfile.engine.discovery import Discovery, Rules
from penstock_localfile.engine.ledger import Ledger
from penstock_localfile.engine.local import LocalStorage
from penstock_localfile.engine.storage import Entry
from tests.benchmarks.measure import Pair, interleaved, row, seconds
from tests.brokers.openssh import OpenSSH

SEED = 8
RECORDS = 2_000_000
SCHEMA = "id BIGINT, name STRING, amount DOUBLE, flag BOOLEAN, city STRING"


@cache
def spark() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    made = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "3g")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made


def noop(frame: DataFrame) -> float:
    return seconds(lambda: frame.write.format("noop").mode("overwrite").save())


@cache
def table() -> pa.Table:
    rng = random.Random(SEED)
    numbers = range(RECORDS)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "name": [f"customer number {i % 1000}" for i in numbers],
            "amount": [rng.random() * 1000 for _ in numbers],
            "flag": [i % 3 == 0 for i in numbers],
            "city": [f"city-{i % 77}" for i in numbers],
        }
    )


def put(form: str, part: pa.Table, path: Path) -> None:
    if form == "csv":
        pcsv.write_csv(part, path)
    elif form == "parquet":
        pq.write_table(part, path)
    else:
        with path.open("w") as file:
            for record in part.to_pylist():
                if form == "json":
                    file.write(json.dumps(record) + "\n")
                else:
                    file.write(
                        f"2024-01-01T00:00:00Z INFO {record['name']} bought something for "
                        f"{record['amount']} in {record['city']} on an ordinary day\n"
                    )


def native(name: str) -> Callable[[Path], None]:
    form, options = NATIVE[name]

    def run(folder: Path) -> None:
        place = folder / form
        place.mkdir()
        whole = table()
        for number in range(4):
            size = RECORDS // 4
            put(form, whole.slice(number * size, size), place / f"{number}.{form}")
        reader = spark().read
        peers: dict[str, Callable[[], DataFrame]] = {
            "text": lambda: reader.text(str(place)),
            "csv": lambda: spark().read.schema(SCHEMA).option("header", "true").csv(str(place)),
            "json": lambda: spark().read.schema(SCHEMA).json(str(place)),
            "parquet": lambda: reader.parquet(str(place)),
        }

        def ours(columns: list[str] | None) -> float:
            frame = pen.read(spark(), "localfile", columns=columns, path=str(place), **options)
            return RECORDS / noop(frame)

        def peer() -> float:
            return RECORDS / noop(peers[form]())

        # What Spark's reader gives, no more: and then with the stamp (and time) of each record.
        bare = ["value"] if form == "text" else table().column_names
        same = interleaved(lambda: ours(bare), peer, warm=2)
        full = interleaved(lambda: ours(None), peer, pairs=3)
        row(name, same, "records/s", ratio_with_stamps=round(full.ratio, 3))

    return run


NATIVE: dict[str, tuple[str, dict[str, str]]] = {
    # Spark's text source does not look whether its text is text: nor does the first of these.
    "text": ("text", {"format": "text", "utf8": "trust"}),
    "text-checked": ("text", {"format": "text"}),
    "text-as-bytes": ("text", {"format": "lines"}),
    "csv": ("csv", {"format": "csv", "schema": SCHEMA}),
    "json": ("json", {"format": "json", "schema": SCHEMA}),
    "parquet": ("parquet", {"format": "parquet"}),
}


FILES, SIZE = 200, 5_000_000


@contextlib.contextmanager
def filled_server() -> Iterator[OpenSSH]:
    with OpenSSH() as server:
        data = random.Random(SEED).randbytes(SIZE)
        for number in range(FILES):
            (server.files / f"{number:03d}.bin").write_bytes(data)
        yield server


def through_spark(server: OpenSSH) -> float:
    frame = (
        spark()
        .read.format("penstock.remotefile")
        .options(
            url=f"sftp://{server.user}@127.0.0.1:{server.port}{server.files}/*.bin",
            private_key=str(server.private_key),
            known_hosts=str(server.known_hosts),
            format="whole",
            parts="2",
            split_bytes="4 GiB",
        )
        .load()
    )
    assert frame.rdd.getNumPartitions() == 2
    return FILES * SIZE / noop(frame) / 1e6


def clients(server: OpenSSH, folder: Path) -> float:
    """Two sftp clients side by side, each with half of the files."""

    def run() -> None:
        running = []
        for half in range(2):
            target = folder / f"half-{half}"
            target.mkdir(exist_ok=True)
            script = "".join(
                f"get {server.files}/{n:03d}.bin {target}/\n" for n in range(half, FILES, 2)
            )
            command = ["sftp", "-q", "-b", "-", "-P", str(server.port), "-i"]
            command += [str(server.private_key), "-o", f"UserKnownHostsFile={server.known_hosts}"]
            command += [f"{server.user}@127.0.0.1"]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
            )
            assert process.stdin is not None
            process.stdin.write(script)
            process.stdin.close()
            running.append(process)
        assert [process.wait() for process in running] == [0, 0]

    taken = seconds(run)
    assert len(list(folder.glob("half-*/*.bin"))) == FILES
    return FILES * SIZE / taken / 1e6


def paramiko_loop(server: OpenSSH) -> float:
    """What a script does: one connection, getfo after getfo."""
    import paramiko

    client = paramiko.SSHClient()
    client.load_host_keys(str(server.known_hosts))
    client.connect(
        "127.0.0.1",
        server.port,
        server.user,
        key_filename=str(server.private_key),
        allow_agent=False,
        look_for_keys=False,
    )

    def run() -> None:
        with client.open_sftp() as sftp:
            for number in range(FILES):
                sink = io.BytesIO()
                sftp.getfo(f"{server.files}/{number:03d}.bin", sink)
                assert sink.tell() == SIZE

    taken = seconds(run)
    client.close()
    return FILES * SIZE / taken / 1e6


def sftp_vs_client(folder: Path) -> None:
    with filled_server() as server:
        pair = interleaved(lambda: through_spark(server), lambda: clients(server, folder), pairs=3)
    row("sftp-vs-client", pair, "MB/s")


def sftp_vs_paramiko(folder: Path) -> None:
    with filled_server() as server:
        through_spark(server)  # Spark needs warming, a loop does not
        pair = interleaved(
            lambda: through_spark(server), lambda: paramiko_loop(server), pairs=3, warm=0
        )
    row("sftp-vs-paramiko", pair, "MB/s")


def seen_growth(folder: Path) -> None:
    """A listing with 100 new files, beyond the listing itself, by what was seen before."""
    place = folder / "in"
    place.mkdir()
    storage = LocalStorage(str(place))
    ledgers = {}
    for seen in (1_000, 1_000_000):
        state = folder / f"state-{seen}"
        ledger = Ledger(str(state), storage.origin)
        old = ((Entry(b"archive/%09d.csv" % n, 1000 + n, n), 1) for n in range(seen))
        ledger.append(old)
        ledgers[seen] = ledger
    names = iter(range(10**9))

    def batch(seen: int) -> float:
        for each in place.iterdir():
            each.unlink()
        for _ in range(100):
            (place / f"{next(names)}.csv").write_bytes(b"x")
        discovery = Discovery(storage, Rules(), ledgers[seen])
        bare = seconds(lambda: list(storage.walk()))
        taken = seconds(discovery.look)
        return 1000 * (taken - bare)

    pair = interleaved(lambda: batch(1_000_000), lambda: batch(1_000), pairs=15, warm=3)
    row("seen-growth", pair, "ms")
    for ledger in ledgers.values():
        ledger.close()


def shout(data: bytes) -> bytes:
    """The conversion of the row file-for-a-file."""
    return b"".join(line + b"\n" for line in data.upper().splitlines() if b"7" not in line)


def file_for_a_file(folder: Path) -> None:
    count = 2_000
    rng = random.Random(SEED)
    source, runs = folder / "in", iter(range(10**6))
    source.mkdir()
    for number in range(count):
        lines = "".join(f"{rng.random()} some text\n" for _ in range(1700))
        (source / f"{number:05d}.txt").write_text(lines[:50_000])

    def through(path: str, parts: int) -> float:
        target = folder / f"out-{next(runs)}"
        frame = (
            spark()
            .read.format("penstock.localfile")
            .options(path=path, format="whole", parts=str(parts), split_bytes="4 GiB")
            .load()
        )
        writer = frame.write.format("penstock.localfile").mode("append")
        taken = seconds(
            writer.options(
                path=str(target), format="files", convert="tests.benchmarks.files:shout"
            ).save
        )
        made = [p for p in target.iterdir() if p.is_file()]
        shutil.rmtree(target)
        return len(made) / taken

    def loop() -> float:
        """The same by hand: temporary name, on disk, then the name."""
        target = folder / f"loop-{next(runs)}"
        target.mkdir()

        def run() -> None:
            for path in sorted(source.iterdir()):
                temporary = target / f".{path.name}"
                with temporary.open("wb") as file:
                    file.write(shout(path.read_bytes()))
                    file.flush()
                    os.fsync(file.fileno())
                temporary.rename(target / path.name)

        taken = seconds(run)
        assert len(list(target.iterdir())) == count
        shutil.rmtree(target)
        return count / taken

    pair = interleaved(lambda: through(str(source), 2), loop, pairs=3)
    some = sorted(source.iterdir())[:20]
    began = time.perf_counter()
    for path in some:
        through(str(path), 1)
    single = len(some) / (time.perf_counter() - began)
    row("file-for-a-file", pair, "files/s", times_one_job_per_file=round(pair.ours / single, 1))


ROWS: dict[str, Callable[[Path], Any]] = {
    **{name: native(name) for name in NATIVE},
    "seen-growth": seen_growth,
    "file-for-a-file": file_for_a_file,
    "sftp-vs-client": sftp_vs_client,
    "sftp-vs-paramiko": sftp_vs_paramiko,
}


def main(wanted: list[str]) -> None:
    for name in wanted or list(ROWS):
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            ROWS[name](Path(folder))


__all__ = ["Pair", "main", "shout"]
