"""The C API of the librdkafka that confluent-kafka is linked with.

confluent-kafka makes a Python object of every record, which takes longer than all the rest of
reading and writing together. The functions below are librdkafka's public, stable interface; the
two structures whose fields we touch, `rd_kafka_message_t` and `rd_kafka_vu_t`, are part of it.
Through them numpy sees thousands of records at once.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from functools import cache
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, cimpl

from penstock.contracts.errors import SetupError
from penstock_kafka.faults import settings_fault
from penstock_kafka.who import WHO

PRODUCER, CONSUMER = 0, 1
NO_CONSUMER_CLOSE = 0x8
F_COPY, F_PARTITION = 0x2, 0x8
REPORT = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)
LINE = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_char_p)

# Those that may wait let other Python threads run meanwhile; those called per record do not,
# because giving up the interpreter costs more than they take.
_WAITING: dict[str, tuple[Any, ...]] = {
    "rd_kafka_assign": (c_int, c_void_p, c_void_p),
    "rd_kafka_incremental_assign": (c_void_p, c_void_p, c_void_p),
    "rd_kafka_incremental_unassign": (c_void_p, c_void_p, c_void_p),
    "rd_kafka_consume_batch_queue": (c_ssize_t, c_void_p, c_int, c_void_p, c_size_t),
    "rd_kafka_query_watermark_offsets": (
        *(c_int, c_void_p, c_char_p, c_int32),
        *(ctypes.POINTER(c_int64), ctypes.POINTER(c_int64), c_int),
    ),
    "rd_kafka_destroy_flags": (None, c_void_p, c_int),
    "rd_kafka_metadata": (c_int, c_void_p, c_int, c_void_p, ctypes.POINTER(c_void_p), c_int),
    "rd_kafka_poll": (c_int, c_void_p, c_int),
    "rd_kafka_flush": (c_int, c_void_p, c_int),
    "rd_kafka_purge": (c_int, c_void_p, c_int),
    "rd_kafka_produce_batch": (c_int, c_void_p, c_int32, c_int, c_void_p, c_int),
    "rd_kafka_init_transactions": (c_void_p, c_void_p, c_int),
    "rd_kafka_begin_transaction": (c_void_p, c_void_p),
    "rd_kafka_send_offsets_to_transaction": (c_void_p, c_void_p, c_void_p, c_void_p, c_int),
    "rd_kafka_commit_transaction": (c_void_p, c_void_p, c_int),
    "rd_kafka_abort_transaction": (c_void_p, c_void_p, c_int),
}
_QUICK: dict[str, tuple[Any, ...]] = {
    "rd_kafka_conf_new": (c_void_p,),
    "rd_kafka_conf_destroy": (None, c_void_p),
    "rd_kafka_conf_set": (c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_size_t),
    "rd_kafka_conf_set_dr_msg_cb": (None, c_void_p, REPORT),
    "rd_kafka_conf_set_log_cb": (None, c_void_p, LINE),
    "rd_kafka_set_log_queue": (c_int, c_void_p, c_void_p),
    "rd_kafka_new": (c_void_p, c_int, c_void_p, c_char_p, c_size_t),
    "rd_kafka_poll_set_consumer": (c_int, c_void_p),
    "rd_kafka_queue_get_consumer": (c_void_p, c_void_p),
    "rd_kafka_queue_destroy": (None, c_void_p),
    "rd_kafka_topic_partition_list_new": (c_void_p, c_int),
    "rd_kafka_topic_partition_list_destroy": (None, c_void_p),
    "rd_kafka_topic_partition_list_add": (c_void_p, c_void_p, c_char_p, c_int32),
    "rd_kafka_topic_partition_list_set_offset": (
        *(c_int, c_void_p, c_char_p),
        *(c_int32, c_int64),
    ),
    "rd_kafka_topic_name": (c_char_p, c_void_p),
    "rd_kafka_topic_new": (c_void_p, c_void_p, c_char_p, c_void_p),
    "rd_kafka_topic_destroy": (None, c_void_p),
    "rd_kafka_metadata_destroy": (None, c_void_p),
    "rd_kafka_message_destroy": (None, c_void_p),
    "rd_kafka_message_errstr": (c_char_p, c_void_p),
    "rd_kafka_message_timestamp": (c_int64, c_void_p, c_void_p),
    "rd_kafka_message_leader_epoch": (c_int32, c_void_p),
    "rd_kafka_message_headers": (c_int, c_void_p, c_void_p),
    "rd_kafka_header_cnt": (c_size_t, c_void_p),
    "rd_kafka_header_get_all": (c_int, c_void_p, c_size_t, c_void_p, c_void_p, c_void_p),
    "rd_kafka_produceva": (c_void_p, c_void_p, c_void_p, c_size_t),
    "rd_kafka_error_code": (c_int, c_void_p),
    "rd_kafka_error_string": (c_char_p, c_void_p),
    "rd_kafka_error_is_fatal": (c_int, c_void_p),
    "rd_kafka_error_is_retriable": (c_int, c_void_p),
    "rd_kafka_error_txn_requires_abort": (c_int, c_void_p),
    "rd_kafka_error_destroy": (None, c_void_p),
    "rd_kafka_fatal_error": (c_int, c_void_p, c_char_p, c_size_t),
    "rd_kafka_err2str": (c_char_p, c_int),
    "rd_kafka_consumer_group_metadata_new": (c_void_p, c_char_p),
    "rd_kafka_consumer_group_metadata_destroy": (None, c_void_p),
}

# Only newer versions have these; None where they are not there.
_PERHAPS: dict[str, tuple[Any, ...]] = {
    "rd_kafka_messages_count": (c_size_t, c_void_p),
    "rd_kafka_messages_get": (c_void_p, c_void_p, c_size_t),
    "rd_kafka_messages_destroy": (None, c_void_p),
}


@cache
def lib() -> SimpleNamespace:
    """The functions, without their prefix; found once per process.

    Raises:
        SetupError: confluent-kafka is built in a way that hides them.
    """
    if sys.byteorder != "little" or ctypes.sizeof(c_void_p) != 8:
        raise SetupError("only 64-bit little-endian machines are supported", who=WHO)
    found = SimpleNamespace()
    try:
        # A handle of the extension module finds the symbols of what it is linked with.
        for loader, table in ((ctypes.CDLL, _WAITING), (ctypes.PyDLL, _QUICK)):
            handle = loader(cimpl.__file__)
            for name, (result, *arguments) in table.items():
                function = getattr(handle, name)
                function.restype, function.argtypes = result, arguments
                setattr(found, name.removeprefix("rd_kafka_"), function)
        for name, (result, *arguments) in _PERHAPS.items():
            function = getattr(handle, name, None)
            if function is not None:
                function.restype, function.argtypes = result, arguments
            setattr(found, name.removeprefix("rd_kafka_"), function)
    except (OSError, AttributeError) as error:
        raise SetupError(
            "librdkafka cannot be reached through confluent-kafka",
            who=WHO,
            expected="confluent-kafka's wheel for Linux or macOS, or a build against librdkafka.so",
            got=str(error),
            fix="pip install --force-reinstall confluent-kafka",
        ) from None
    return found


def new_client(kind: int, settings: dict[str, str], report: Any = None, line: Any = None) -> int:
    """A client handle.

    Args:
        kind: `PRODUCER` or `CONSUMER`.
        settings: librdkafka's names and values.
        report: A `REPORT` that hears of delivered records while the client is polled.
        line: A `LINE` that gets the client's log while it is polled, instead of stderr.

    Raises:
        OptionError: librdkafka refuses a setting.
    """
    rk = lib()
    conf = rk.conf_new()
    if line is not None:
        # From librdkafka's own threads it could wait for the interpreter with a lock held.
        settings = {**settings, "log.queue": "true"}
        rk.conf_set_log_cb(conf, line)
    said = ctypes.create_string_buffer(512)
    for name, value in settings.items():
        if rk.conf_set(conf, name.encode(), str(value).encode(), said, len(said)) != 0:
            rk.conf_destroy(conf)
            raise settings_fault(failure(KafkaError._INVALID_ARG, said.value.decode()))
    if report is not None:
        rk.conf_set_dr_msg_cb(conf, report)
    handle = rk.new(kind, conf, said, len(said))
    if not handle:
        rk.conf_destroy(conf)
        raise settings_fault(failure(KafkaError._INVALID_ARG, said.value.decode()))
    if line is not None:
        rk.set_log_queue(handle, None)
    return int(handle)


def failure(code: int, text: str | None = None, **flags: bool) -> KafkaException:
    """An error as confluent-kafka would raise it."""
    said = text or lib().err2str(code).decode()
    return KafkaException(KafkaError(code, said, **flags))


def settle(error: int | None) -> None:
    """Raise what a function returned as its error object, which is freed.

    Raises:
        KafkaException: there is one.
    """
    if not error:
        return
    rk = lib()
    try:
        raise failure(
            rk.error_code(error),
            rk.error_string(error).decode("utf-8", "replace"),
            fatal=bool(rk.error_is_fatal(error)),
            retriable=bool(rk.error_is_retriable(error)),
            txn_requires_abort=bool(rk.error_txn_requires_abort(error)),
        )
    finally:
        rk.error_destroy(error)


class Places:
    """A list of topics, partitions and offsets in librdkafka's own memory."""

    def __init__(self, offsets: list[tuple[str, int, int]]) -> None:
        self._offsets = offsets

    def __enter__(self) -> int:
        rk = lib()
        self._list = rk.topic_partition_list_new(len(self._offsets))
        for topic, partition, offset in self._offsets:
            name = topic.encode()
            rk.topic_partition_list_add(self._list, name, partition)
            rk.topic_partition_list_set_offset(self._list, name, partition, offset)
        return int(self._list)

    def __exit__(self, *_: object) -> None:
        lib().topic_partition_list_destroy(self._list)
