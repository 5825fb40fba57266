"""librdkafka's errors in Penstock's tree."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from penstock.contracts.errors import (
    DataLossError,
    EphemeralReadError,
    EphemeralWriteError,
    OptionError,
    PenstockError,
    ReadError,
    WriteError,
)
from penstock_kafka.who import WHO

_PASSING = {
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._NOENT,  # no partition has a leader just now: its brokers are away
    KafkaError._WAIT_COORD,
    KafkaError._MSG_TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._PURGE_QUEUE,
    KafkaError._PURGE_INFLIGHT,
    KafkaError._FENCED,
    KafkaError._STATE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    # While a broker comes back or partitions move.
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.NOT_CONTROLLER,
    KafkaError.LISTENER_NOT_FOUND,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
}
_RECORDS = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.INVALID_RECORD,
}
"""What a broker answers to records that it will never take, whatever else it says of them."""
_REFUSALS = {
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._SSL,
}
_ACCESS = _REFUSALS | {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


def kafka_error(cause: KafkaException | KafkaError) -> KafkaError:
    """The error inside an exception."""
    return cause.args[0] if isinstance(cause, KafkaException) else cause


def passing(error: KafkaError) -> bool:
    """Whether the same request may work later."""
    if error.code() in _RECORDS:
        return False
    return error.retriable() or error.code() in _PASSING or error.txn_requires_abort()


def refused(error: KafkaError) -> bool:
    """Whether the server was reached and did not let us in, or we did not trust it."""
    return error.code() in _REFUSALS


def read_fault(doing: str, cause: KafkaException | KafkaError) -> PenstockError:
    """What a failed read, or a question on the driver, is raised as."""
    error = kafka_error(cause)
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        kind: type[PenstockError] = DataLossError
    else:
        kind = EphemeralReadError if passing(error) else ReadError
    return kind(f"{doing} failed", who=WHO, got=error.str(), fix=_advice(error))


def write_fault(doing: str, cause: KafkaException | KafkaError) -> PenstockError:
    """What a failed write is raised as."""
    error = kafka_error(cause)
    kind = EphemeralWriteError if passing(error) else WriteError
    return kind(f"{doing} failed", who=WHO, got=error.str(), fix=_advice(error))


def settings_fault(cause: KafkaException) -> PenstockError:
    """What a client that cannot be made from its settings is raised as."""
    error = kafka_error(cause)
    return OptionError(
        "librdkafka refuses a kafka.* setting",
        who=WHO,
        got=error.str(),
        fix="see librdkafka's CONFIGURATION.md for names and values",
    )


def _advice(error: KafkaError) -> str:
    if error.code() in _ACCESS:
        return "check the kafka.security.*, kafka.sasl.* and kafka.ssl.* settings and the ACLs"
    if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
        return "create the topic, or correct its name"
    if error.code() == KafkaError._UNKNOWN_PARTITION:
        return "the partition does not exist: correct the partitions option"
    if error.code() in _RECORDS:
        return (
            "the broker refuses records that the sink took for good: compare the topic's "
            "max.message.bytes with kafka.message.max.bytes, and its message.timestamp.* settings "
            "with event_time (timestamps=now drops it)"
        )
    if passing(error):
        return "see that the brokers run and can be reached from here; it is tried again"
    return "see the broker's log"
