"""The options both ends share, and the check of what is passed through to librdkafka."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping

from penstock.contracts import Secret
from penstock.contracts.errors import OptionError
from penstock.contracts.hosts import is_loopback

OURS = {
    "bootstrap.servers": "set the option servers instead",
    "metadata.broker.list": "set the option servers instead",
    "group.id": "set the option group instead",
    "group.instance.id": "Penstock assigns partitions itself: remove it",
    "client.id": "set the option client_id instead",
    "isolation.level": "set the option isolation instead",
    "auto.offset.reset": "set the options start and on_data_loss instead",
    "enable.auto.commit": "offsets are committed when a batch is durable: remove it",
    "auto.commit.enable": "offsets are committed when a batch is durable: remove it",
    "enable.auto.offset.store": "offsets are committed when a batch is durable: remove it",
    "enable.partition.eof": "Penstock needs it on: remove it",
    "transactional.id": "Penstock names transactions itself: remove it",
    "transaction.timeout.ms": "set the option transaction_timeout instead",
    "enable.idempotence": "Penstock needs it on: remove it",
    "partitioner": "set the option partitioner instead",
    "compression.type": "set the option compression instead",
    "compression.codec": "set the option compression instead",
    "plugin.library.paths": "it loads foreign code into every process: remove it",
    "ssl.engine.location": "it loads foreign code into every process: remove it",
    "ssl.providers": "it loads foreign code into every process: remove it",
    "sasl.kerberos.kinit.cmd": "it runs a command in every process: keep tickets fresh outside",
    "opaque": "it has no meaning here: remove it",
}
"""librdkafka settings that would break a promise, with what to do instead."""

JAVA = {
    "sasl.jaas.config": "set kafka.sasl.username and kafka.sasl.password",
    "ssl.truststore.location": "set kafka.ssl.ca.location to a PEM file",
    "ssl.truststore.password": "set kafka.ssl.ca.location to a PEM file",
    "ssl.keystore.type": "set kafka.ssl.key.location and kafka.ssl.certificate.location",
    "key.deserializer": "keys and values are bytes; use a coder",
    "value.deserializer": "keys and values are bytes; use a coder",
    "key.serializer": "keys and values are bytes; use a coder",
    "value.serializer": "keys and values are bytes; use a coder",
    "max.poll.records": "set the option batch_rows",
}
"""Settings of the Java client that librdkafka does not have."""

ACKS = ("acks", "request.required.acks")
"""An idempotent producer needs the acknowledgement of all."""

FALSE = dict.fromkeys(("f", "0"), "false")
"""Other spellings that librdkafka takes."""

UNSAFE = {
    ("enable.ssl.certificate.verification", "false"): "the server's certificate is not checked",
    ("ssl.endpoint.identification.algorithm", "none"): "the server's name is not checked",
}


def check_passed(
    passed: Mapping[str, str | Secret], servers: str, *, allow_plaintext: bool
) -> None:
    """Refuse what would break a promise, warn of what weakens one.

    Raises:
        OptionError: which setting, and what to do instead.
    """
    for name, value in passed.items():
        lowered = name.lower()
        for table in (OURS, JAVA):
            if lowered in table:
                raise OptionError(
                    f"the setting kafka.{name} cannot be passed through", fix=table[lowered]
                )
        if lowered in ACKS and str(value).strip().lower() not in ("all", "-1"):
            raise OptionError(
                f"kafka.{name}={value} would lose records without notice",
                expected="all",
                fix="remove it",
            )
        if lowered.endswith("_cb"):
            raise OptionError(f"the setting kafka.{name} is a callback", fix="remove it")
        spelled = str(value).strip().lower()
        if danger := UNSAFE.get((lowered, FALSE.get(spelled, spelled))):
            warnings.warn(f"kafka.{name}={value}: {danger}", stacklevel=4)
    lowered_all = {name.lower(): value for name, value in passed.items()}
    protocol = str(lowered_all.get("security.protocol", "plaintext")).lower()
    mechanism = str(
        lowered_all.get("sasl.mechanism", lowered_all.get("sasl.mechanisms", ""))
    ).upper()
    if (
        protocol == "sasl_plaintext"
        and mechanism in ("PLAIN", "OAUTHBEARER")
        and not allow_plaintext
        and not all(_loopback(server) for server in servers.split(","))
    ):
        raise OptionError(
            "credentials would cross the network in clear text",
            expected="kafka.security.protocol=SASL_SSL, or only loopback servers",
            got=f"kafka.security.protocol={protocol}, kafka.sasl.mechanism={mechanism}",
            fix="use SASL_SSL, or set allow_plaintext=true knowingly",
        )


def _loopback(server: str) -> bool:
    host = server.strip().rpartition(":")[0].strip("[]")
    return is_loopback(host)


def revealed(passed: Mapping[str, str | Secret]) -> dict[str, str]:
    """The settings as librdkafka takes them; call it where a client is made."""
    return {k: v.reveal() if isinstance(v, Secret) else v for k, v in passed.items()}


def check_servers(value: str) -> str | None:
    """A check for `servers`."""
    for server in value.split(","):
        host, colon, port = server.strip().rpartition(":")
        if not colon or not host or not port.isdigit():
            return "must be host:port, several with commas between"
    return None


TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""What Kafka takes for the name of a topic."""


def check_topic(value: str) -> str | None:
    """A check for `topic`."""
    if TOPIC.fullmatch(value):
        return None
    return "must be a name of a topic: letters, digits, dots, underscores, hyphens; 249 at most"
