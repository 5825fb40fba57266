"""The planner and the reader against a real broker."""

import pickle
import time
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.conformance.waiting import until
from penstock.contracts import ENVELOPE, Batch, Context, Limit
from penstock.contracts.envelope import HEADERS
from penstock.contracts.errors import DataLossError, OptionError, PositionError, ReadError
from penstock_kafka.fetch import sample
from penstock_kafka.positions import KafkaPart, Range
from penstock_kafka.sink import KafkaSink
from penstock_kafka.source import KafkaSource

pytestmark = pytest.mark.server


@pytest.fixture
def source(kafka):
    planners = []

    def make(**options):
        made = KafkaSource(servers=kafka.address, **options)
        planners.append(made.planner(Context()))
        return made, planners[-1]

    yield make
    for planner in planners:
        planner.close()


def table(made, parts) -> pa.Table:
    batches = [rows for part in parts for rows in pickle.loads(pickle.dumps(made)).read(part)]
    assert all(rows.schema.equals(made.schema()) for rows in batches)
    return pa.Table.from_batches(batches, made.schema())


def values(made, parts) -> list[bytes]:
    return table(made, parts).column("value").to_pylist()


def numbered(count, first=0):
    return [b"%d" % n for n in range(first, first + count)]


def test_a_batch_read_gives_every_record_of_every_partition_in_order(source, new_topic, produce):
    topic = new_topic(3)
    for partition in range(3):
        produce(topic, numbered(500, 1000 * partition), partition=partition)
    made, planner = source(topics=[topic], batch_rows=200, group_rows=0)
    parts = planner.plan(planner.initial(), planner.final())
    assert len(parts) == 3
    for partition, part in enumerate(parts):
        assert values(made, [part]) == numbered(500, 1000 * partition)


def test_small_partitions_are_read_in_one_task_one_after_the_other(source, new_topic, produce):
    topic = new_topic(20)
    for partition in range(20):
        produce(topic, numbered(10, 100 * partition), partition=partition)
    made, planner = source(topics=[topic])
    parts = planner.plan(planner.initial(), planner.final())
    assert len(parts) == 1
    assert values(made, parts) == [n for p in range(20) for n in numbered(10, 100 * p)]


def test_the_envelope_holds_what_the_record_held(source, new_topic, produce):
    topic = new_topic(2)
    sent = [("kind", b"order"), ("kind", None), ("grüße", b"\x00\xff")]
    produce(topic, [b"body"], partition=1, key=b"k", headers=sent, timestamp=1_700_000_000_123)
    produce(topic, [None], partition=1, key=b"gone")
    made, planner = source(topics=[topic])
    rows = table(made, planner.plan(planner.initial(), planner.final())).to_pylist()
    assert rows[0]["key"] == b"k"
    assert rows[0]["value"] == b"body"
    assert [(h["key"], h["value"]) for h in rows[0]["headers"]] == sent
    assert rows[0]["event_time"] == datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)
    assert rows[0]["stamp"] == {"origin": topic, "part": "1", "position": 0}
    assert rows[1]["value"] is None
    assert not rows[1]["headers"]
    assert rows[1]["stamp"]["position"] == 1


def test_sparks_columns_and_the_leader_epoch_come_on_request(source, new_topic, produce):
    topic = new_topic(1, message_timestamp_type="LogAppendTime")
    produce(topic, [b"v"], key=b"k")
    made, planner = source(topics=[topic], columns="spark")
    row = table(made, planner.plan(planner.initial(), planner.final())).to_pylist()[0]
    assert (row["topic"], row["partition"], row["offset"]) == (topic, 0, 0)
    assert row["timestampType"] == 1
    assert row["leaderEpoch"] == 0


def test_an_id_is_taken_from_the_header_the_user_names(source, new_topic, produce):
    topic = new_topic()
    produce(topic, [b"a"], headers=[("other", b"x"), ("message-id", b"17")])
    produce(topic, [b"b"])
    made, planner = source(topics=[topic], id_header="message-id")
    rows = table(made, planner.plan(planner.initial(), planner.final()))
    assert rows.column("id").to_pylist() == ["17", None]


def test_limits_spread_over_partitions_and_until_ends_the_stream(source, new_topic, produce):
    topic = new_topic(4)
    for partition in range(4):
        produce(topic, numbered(100 if partition else 5), partition=partition)
    made, planner = source(topics=[topic])
    at, batches, last = planner.initial(), [], planner.latest(planner.initial(), Limit())
    produce(topic, [b"later"], partition=2)
    while (end := planner.latest(at, Limit(rows=40), last)) != at:
        batches.append(values(made, planner.plan(at, end)))
        at = end
    assert at == last
    assert all(0 < len(batch) <= 40 for batch in batches)
    assert sum(map(len, batches)) == 305
    assert b"later" not in [v for batch in batches for v in batch]


def test_a_limit_in_bytes_is_kept_about(source, new_topic, produce):
    topic = new_topic(2)
    for partition in range(2):
        produce(topic, [b"x" * 1000] * 300, partition=partition)
    made, planner = source(topics=[topic])
    at, sizes = planner.initial(), []
    while (end := planner.latest(at, Limit(bytes=100_000))) != at:
        sizes.append(len(values(made, planner.plan(at, end))))
        at = end
    assert sum(sizes) == 600
    assert all(50 <= size <= 100 for size in sizes[:-1])


def test_nothing_new_returns_the_very_position(source, new_topic, produce):
    topic = new_topic(2)
    produce(topic, numbered(3), partition=0)
    _, planner = source(topics=[topic])
    end = planner.latest(planner.initial(), Limit())
    assert planner.latest(end, Limit()) == end
    assert planner.plan(end, end) == []


def test_new_partitions_are_read_from_their_beginning_and_replay_the_same(
    source, new_topic, produce, kafka
):
    from confluent_kafka.admin import AdminClient, NewPartitions

    topic = new_topic(1)
    produce(topic, [b"old"])
    made, planner = source(topics=[topic], refresh=0)
    before = planner.latest(planner.initial(), Limit())
    admin = AdminClient({"bootstrap.servers": kafka.address})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(20)
    deadline = time.monotonic() + 20
    while len(admin.list_topics(topic).topics[topic].partitions) < 3:
        assert time.monotonic() < deadline
    producer = Producer({"bootstrap.servers": kafka.address})
    producer.produce(topic, b"new", partition=2)
    assert producer.flush(20) == 0
    after = planner.latest(before, Limit())
    assert values(made, planner.plan(before, after)) == [b"new"]
    _, another = source(topics=[topic])
    assert another.plan(before, after) == planner.plan(before, after)


def test_topics_by_pattern_are_found_while_running(source, new_topic, produce, kafka):
    first, second = new_topic(), new_topic()
    made, planner = source(pattern=f"{first}|{second}|{first}-later", refresh=0)
    produce(first, [b"1"])
    produce(second, [b"2"])
    at = planner.initial()
    end = planner.latest(at, Limit())
    assert sorted(values(made, planner.plan(at, end))) == [b"1", b"2"]
    produce(kafka.create_topic(f"{first}-later"), [b"3"])
    later = planner.latest(end, Limit())
    assert values(made, planner.plan(end, later)) == [b"3"]


def test_only_the_named_partitions_are_read(source, new_topic, produce):
    topic = new_topic(3)
    for partition in range(3):
        produce(topic, [b"%d" % partition], partition=partition)
    made, planner = source(partitions={topic: [0, 2]})
    assert values(made, planner.plan(planner.initial(), planner.final())) == [b"0", b"2"]


def test_start_and_end_by_offset_and_by_moment(source, new_topic, produce):
    topic = new_topic(2)
    for n in range(10):
        produce(topic, [b"%d" % n], partition=0, timestamp=1_700_000_000_000 + 1000 * n)
        produce(topic, [b"%d" % n], partition=1, timestamp=1_700_000_000_000 + 1000 * n)
    made, planner = source(
        topics=[topic],
        start={topic: {"0": 4, "1": "2023-11-14T22:13:27Z"}},
        end={topic: {"0": 6}},
    )
    found = table(made, planner.plan(planner.initial(), planner.final()))
    by_part = {"0": [], "1": []}
    for row in found.to_pylist():
        by_part[row["stamp"]["part"]].append(row["value"])
    assert by_part == {"0": [b"4", b"5"], "1": [b"7", b"8", b"9"]}


def test_a_moment_after_the_last_record_is_the_end(source, new_topic, produce):
    topic = new_topic()
    produce(topic, numbered(3))
    made, planner = source(topics=[topic], start="2100-01-01T00:00:00Z")
    at = planner.initial()
    produce(topic, [b"next"])
    assert values(made, planner.plan(at, planner.latest(at, Limit()))) == [b"next"]


def test_splitting_gives_parts_that_together_are_the_partition(source, new_topic, produce):
    topic = new_topic()
    produce(topic, numbered(1000))
    made, planner = source(topics=[topic], split_rows=300)
    parts = planner.plan(planner.initial(), planner.final())
    assert [len(part) for part in parts] == [300, 300, 300, 100]
    assert values(made, parts) == numbered(1000)


def test_min_rows_are_waited_for_but_not_for_ever(source, new_topic, produce):
    topic = new_topic()
    produce(topic, numbered(5))
    _, planner = source(topics=[topic], min_rows=10, max_wait=1.0)
    at = planner.initial()
    assert planner.latest(at, Limit()) == at
    produce(topic, numbered(5))
    assert planner.latest(at, Limit()) != at
    _, planner = source(topics=[topic], min_rows=100, max_wait=0.5)
    began = time.monotonic()
    while planner.latest(at, Limit()) == at:
        assert time.monotonic() - began < 5
    assert time.monotonic() - began >= 0.5


def test_min_bytes_are_waited_for_but_not_where_reading_ends(source, new_topic, produce):
    topic = new_topic()
    produce(topic, [b"x" * 1000] * 5)
    _, planner = source(topics=[topic], min_bytes=10_000, max_wait=600)
    at = planner.initial()
    assert planner.latest(at, Limit()) == at
    end = planner.available(at)
    assert end != at
    assert planner.latest(at, Limit(), end) == end
    produce(topic, [b"x" * 1000] * 5)
    assert planner.latest(at, Limit()) != at


def test_sizes_are_sampled_where_the_first_records_are_deleted_or_only_aborted(
    source, new_topic, produce, kafka
):
    deleted, aborted = new_topic(), new_topic()
    produce(deleted, [b"x" * 1000] * 40)
    delete_before(kafka, deleted, 20)
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": aborted})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(aborted, b"never")
    producer.flush(20)
    producer.abort_transaction(20)
    made, _ = source(topics=[deleted, aborted])
    assert 1000 <= sample(made, [(deleted, 0, 0)]) < 1200
    began = time.monotonic()
    assert sample(made, [(aborted, 0, 0)]) is None
    assert time.monotonic() - began < made.timeout / 4


def test_a_header_whose_name_is_no_text_is_read_with_a_replacement(source, new_topic, kafka):
    topic = new_topic()
    sink = KafkaSink(servers=kafka.address, topic=topic, delivery="at-least-once")
    name = pa.array([b"gr\xfc\xdfe"]).view(pa.string())
    pairs = pa.StructArray.from_arrays([name, pa.array([b"1"])], fields=list(HEADERS.value_type))
    headers = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), pairs, type=HEADERS)
    rows = pa.record_batch({"value": pa.array([b"v"]), "headers": headers})
    writer = sink.open(Batch(Context(query="q"), 0), 0, 0, rows.schema)
    writer.write(rows)
    writer.close()
    made, planner = source(topics=[topic])
    found = table(made, planner.plan(planner.initial(), planner.final())).to_pylist()
    assert found[0]["headers"] == [{"key": "gr\ufffd\ufffde", "value": b"1"}]


def test_only_committed_transactions_are_read_and_control_records_end_a_part(
    source, new_topic, kafka
):
    topic = new_topic()
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": topic})
    producer.init_transactions(30)
    for value, keep in ((b"yes", True), (b"no", False), (b"also", True), (b"never", False)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.commit_transaction(20) if keep else (
            producer.flush(20),
            producer.abort_transaction(20),
        )
    made, planner = source(topics=[topic])
    assert values(made, planner.plan(planner.initial(), planner.final())) == [b"yes", b"also"]
    made, planner = source(topics=[topic], isolation="read_uncommitted")
    assert len(values(made, planner.plan(planner.initial(), planner.final()))) == 4
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(20)
    made, planner = source(topics=[topic])
    assert values(made, planner.plan(planner.initial(), planner.final())) == [b"yes", b"also"]
    producer.abort_transaction(20)


def test_lag_is_what_is_left_to_read(source, new_topic, produce):
    topic = new_topic(2)
    produce(topic, numbered(7), partition=0)
    _, planner = source(topics=[topic])
    at = planner.initial()
    assert planner.lag(at) == {f"{topic}-0": 7, f"{topic}-1": 0}
    assert set(planner.lag(planner.latest(at, Limit())).values()) == {0}


def test_a_durable_batch_moves_the_consumer_group(source, new_topic, produce, kafka):
    topic = new_topic()
    produce(topic, numbered(9))
    group = f"g-{topic}"
    _, planner = source(topics=[topic], group=group)
    end = planner.latest(planner.initial(), Limit(rows=4))
    planner.durable(end)
    planner.durable(end)
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": group})
    found = consumer.committed([TopicPartition(topic, 0)], timeout=20)[0]
    consumer.close()
    assert found.offset == 4


@pytest.mark.parametrize(
    "position",
    [{}, {"topics": 3}, {"topics": {"t": {"id": None, "at": {"0": -1}}}}, {"e": "x", "n": 3}],
)
def test_a_foreign_position_is_refused(source, new_topic, position):
    _, planner = source(topics=[new_topic()])
    with pytest.raises(PositionError):
        planner.latest(position, Limit())
    with pytest.raises(PositionError):
        planner.plan(position, {"topics": {}})


def test_a_position_from_the_future_is_refused(source, new_topic, produce):
    topic = new_topic()
    produce(topic, numbered(3))
    _, planner = source(topics=[topic])
    end = planner.latest(planner.initial(), Limit())
    end["topics"][topic]["at"]["0"] = 10
    with pytest.raises(DataLossError, match="7 records beyond the end"):
        planner.latest(end, Limit())


def test_a_log_that_was_cut_off_is_read_on_from_its_end_where_loss_is_only_warned_of(
    source, new_topic, produce, caplog
):
    topic = new_topic()
    produce(topic, numbered(3))
    made, planner = source(topics=[topic], on_data_loss="warn")
    end = planner.latest(planner.initial(), Limit())
    end["topics"][topic]["at"]["0"] = 10
    cut = planner.latest(end, Limit())
    assert planner.plan(end, cut) == []
    assert planner.latest(cut, Limit()) == cut
    assert caplog.text.count("beyond the end") == 1
    produce(topic, [b"next"])
    assert values(made, planner.plan(cut, planner.latest(cut, Limit()))) == [b"next"]


def test_a_part_beyond_the_log_is_lost_not_another_record(source, new_topic, produce, caplog):
    topic = new_topic()
    produce(topic, numbered(3))
    beyond = KafkaPart((Range(topic, 0, 50, 150),))
    made, _ = source(topics=[topic])
    with pytest.raises(DataLossError, match="100 records"):
        values(made, [beyond])
    made, _ = source(topics=[topic], on_data_loss="warn")
    assert values(made, [beyond]) == []
    assert "100 records" in caplog.text


def test_topics_that_the_options_name_no_more_are_not_read_but_keep_their_place(
    source, new_topic, produce, caplog
):
    kept, dropped = new_topic(), new_topic(2)
    _, planner = source(topics=[kept, dropped])
    at = planner.latest(planner.initial(), Limit())
    produce(kept, [b"kept"])
    produce(dropped, [b"dropped"], partition=1)
    made, planner = source(topics=[kept])
    end = planner.latest(at, Limit())
    assert values(made, planner.plan(at, end)) == [b"kept"]
    assert planner.latest(end, Limit()) == end
    assert caplog.text.count("not among the topics") == 1
    made, planner = source(partitions={kept: [0], dropped: [0]})
    assert planner.latest(end, Limit()) == end
    made, planner = source(topics=[kept, dropped])
    assert values(made, planner.plan(end, planner.latest(end, Limit()))) == [b"dropped"]


def test_an_end_beyond_the_log_is_the_end_of_a_stream_and_an_error_in_batch(
    source, new_topic, produce
):
    topic = new_topic()
    produce(topic, numbered(5))
    made, planner = source(topics=[topic], end={topic: {"0": 50}})
    at = planner.initial()
    end = planner.latest(at, Limit())
    assert values(made, planner.plan(at, end)) == numbered(5)
    assert planner.latest(end, Limit()) == end
    with pytest.raises(PositionError, match="at most 5"):
        planner.final()
    _, planner = source(topics=[topic], start={topic: {"0": 50}})
    with pytest.raises(PositionError, match="option start"):
        planner.initial()


@pytest.mark.parametrize("named", [{"never-made": "latest"}, {"T": {"7": 0}}, {"T": {"x": 0}}])
@pytest.mark.parametrize("option", ["start", "end"])
def test_a_place_that_is_not_read_is_refused(source, new_topic, named, option):
    topic = new_topic()
    given = {topic if name == "T" else name: place for name, place in named.items()}
    _, planner = source(topics=[topic], **{option: given})
    with pytest.raises(OptionError, match="names what is not read"):
        planner.initial()


def test_a_missing_topic_is_named(source):
    _, planner = source(topics=["never-made"], timeout=5)
    with pytest.raises(ReadError, match="never-made"):
        planner.initial()


def delete_before(kafka, topic, offset):
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": kafka.address})
    futures = admin.delete_records([TopicPartition(topic, 0, offset)])
    for future in futures.values():
        future.result(20)


def test_deleted_records_are_an_error_or_a_counted_warning(
    source, new_topic, produce, kafka, caplog
):
    topic = new_topic()
    produce(topic, numbered(100))
    made, planner = source(topics=[topic])
    parts = planner.plan(planner.initial(), planner.final())
    delete_before(kafka, topic, 30)
    with pytest.raises(DataLossError, match="30 records"):
        values(made, parts)
    made, _ = source(topics=[topic], on_data_loss="warn")
    assert values(made, parts) == numbered(70, 30)
    assert "30 records" in caplog.text
    delete_before(kafka, topic, 100)
    assert values(made, parts) == []
    assert "100 records" in caplog.text


def delete_topic(kafka, topic):
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": kafka.address})
    admin.delete_topics([topic])[topic].result(20)
    until(lambda: topic not in admin.list_topics().topics, within=20, why="the topic is gone")


@pytest.mark.parametrize("refresh", [0, 600])
def test_a_topic_made_anew_is_an_error_or_read_from_its_beginning(
    source, new_topic, produce, kafka, caplog, refresh
):
    topic = new_topic()
    produce(topic, numbered(20))
    _, planner = source(topics=[topic], refresh=refresh)
    made, warns = source(topics=[topic], refresh=refresh, on_data_loss="warn")
    end = planner.latest(planner.initial(), Limit())
    assert warns.latest(warns.initial(), Limit()) == end
    delete_topic(kafka, topic)
    kafka.create_topic(topic)
    with pytest.raises(DataLossError, match="made anew"):
        planner.latest(end, Limit())
    anew = warns.latest(end, Limit())
    assert warns.latest(anew, Limit()) == anew
    assert caplog.text.count("made anew") == 1
    produce(topic, numbered(9, 50))
    after = warns.latest(anew, Limit())
    assert values(made, warns.plan(anew, after)) == numbered(9, 50)


def test_a_topic_that_is_missing_for_a_moment_is_not_taken_for_deleted(
    source, new_topic, produce, monkeypatch
):
    topic = new_topic()
    produce(topic, numbered(5))
    _, planner = source(topics=[topic], refresh=0, on_data_loss="warn")
    end = planner.latest(planner.initial(), Limit())
    describe, empty = planner.cluster.describe, [{}, {}]
    monkeypatch.setattr(
        planner.cluster, "describe", lambda names: empty.pop() if empty else describe(names)
    )
    assert planner.latest(end, Limit()) == end
    assert not empty


def test_a_batch_of_a_topic_made_anew_is_not_planned_again_from_the_new_one(
    source, new_topic, produce, kafka, caplog
):
    topic = new_topic()
    produce(topic, numbered(5))
    _, planner = source(topics=[topic])
    at = planner.initial()
    end = planner.latest(at, Limit())
    delete_topic(kafka, topic)
    produce(kafka.create_topic(topic), numbered(9, 50))
    _, planner = source(topics=[topic])
    with pytest.raises(DataLossError, match="5 records"):
        planner.plan(at, end)
    _, planner = source(topics=[topic], on_data_loss="warn")
    assert planner.plan(at, end) == []
    assert "5 records" in caplog.text


@pytest.mark.parametrize("by", ["topics", "pattern"])
def test_a_deleted_topic_is_an_error_or_the_others_go_on(
    source, new_topic, produce, kafka, caplog, by
):
    stays, goes = new_topic(), new_topic()
    produce(goes, numbered(5))
    named = [stays, goes] if by == "topics" else f"{stays}|{goes}"
    _, planner = source(**{by: named})
    made, warns = source(**{by: named}, on_data_loss="warn")
    at = planner.initial()
    some = planner.latest(at, Limit(rows=2))
    assert warns.latest(at, Limit(rows=2)) == some
    delete_topic(kafka, goes)
    produce(stays, [b"more"])
    for each in (planner, warns):
        each._looked = None
    with pytest.raises(DataLossError, match="at least 3 of its records"):
        planner.latest(some, Limit())
    end = warns.latest(some, Limit())
    assert values(made, warns.plan(some, end)) == [b"more"]
    assert warns.latest(end, Limit()) == end
    assert caplog.text.count("was deleted") == 1


def test_the_schema_is_the_envelope_and_asks_no_broker():
    made = KafkaSource(servers="nowhere:1", topics=["t"])
    assert made.schema() == ENVELOPE
