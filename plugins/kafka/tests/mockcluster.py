"""librdkafka's own mock cluster: a Kafka in this process that fails when it is told to."""

import ctypes
from ctypes import c_char_p, c_int, c_int16, c_size_t, c_void_p

from confluent_kafka import cimpl

from penstock_kafka.librdkafka import PRODUCER, lib, new_client

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH = 0, 1, 2, 3, 8, 9
INIT_PRODUCER_ID, ADD_OFFSETS, END_TRANSACTION = 22, 25, 26
_FUNCTIONS = {
    "cluster_new": (c_void_p, c_void_p, c_int),
    "cluster_destroy": (None, c_void_p),
    "cluster_bootstraps": (c_char_p, c_void_p),
    "topic_create": (c_int, c_void_p, c_char_p, c_int, c_int),
    "push_request_errors_array": (None, c_void_p, c_int16, c_size_t, c_void_p),
    "broker_set_down": (c_int, c_void_p, c_int),
    "broker_set_up": (c_int, c_void_p, c_int),
    "coordinator_set": (c_int, c_void_p, c_char_p, c_char_p, c_int),
}


class MockCluster:
    """Brokers 1 to `brokers`, on ports of this machine."""

    def __init__(self, brokers: int = 1) -> None:
        handle = ctypes.CDLL(cimpl.__file__)
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(handle, f"rd_kafka_mock_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, f"_{name}", function)
        self._owner = new_client(PRODUCER, {"client.id": "mock"})
        self._cluster = self._cluster_new(self._owner, brokers)
        self.address = self._cluster_bootstraps(self._cluster).decode()

    def create_topic(self, name: str, partitions: int = 1) -> str:
        assert self._topic_create(self._cluster, name.encode(), partitions, 1) == 0
        return name

    def fail(self, request: int, *codes: int) -> None:
        """Answer the next requests of this kind with these errors, one each."""
        errors = (c_int * len(codes))(*codes)
        self._push_request_errors_array(self._cluster, request, len(codes), errors)

    def down(self, broker: int = 1) -> None:
        assert self._broker_set_down(self._cluster, broker) == 0

    def up(self, broker: int = 1) -> None:
        assert self._broker_set_up(self._cluster, broker) == 0

    def close(self) -> None:
        self._cluster_destroy(self._cluster)
        lib().destroy_flags(self._owner, 0)
