"""Apache Kafka: one broker and controller in one JVM (KRaft)."""

import base64
import uuid

from tests.brokers import jars
from tests.brokers.certificates import Authority
from tests.brokers.ports import free_port
from tests.brokers.server import Server

LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss,SSS} %p %m (%c{1})%n
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
"""


class Kafka(Server):
    """A broker that single-machine tests can trust: one replica of everything, no waiting.

    Args:
        settings: further lines for server.properties.
        heap: the JVM's heap; give a benchmark more.
        proxied_by: port of a proxy in front of a second listener. Clients that bootstrap through
            that proxy stay behind it; the proxy's target is `proxied_port`.
        tls: what signs a certificate for 127.0.0.1; adds a TLS listener (`tls_address`) and one
            that wants `user` and `password` as well, by SASL PLAIN (`sasl_address`).
        tuned: False leaves the JVM its full compiler, for benchmarks.
    """

    name = "kafka"
    user, password = "penstock", "let-me-in"

    def __init__(
        self,
        settings: dict[str, str] | None = None,
        *,
        heap: str = "384m",
        proxied_by: int | None = None,
        tls: Authority | None = None,
        tuned: bool = True,
    ) -> None:
        super().__init__()
        self.settings = settings or {}
        self.heap = heap
        self.tuned = tuned
        self.port = free_port()
        self.controller_port = free_port()
        self.proxied_by = proxied_by
        self.proxied_port = free_port() if proxied_by else None
        self.tls = tls
        self.tls_port = free_port()
        self.sasl_port = free_port()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def tls_address(self) -> str:
        return f"127.0.0.1:{self.tls_port}"

    @property
    def sasl_address(self) -> str:
        return f"127.0.0.1:{self.sasl_port}"

    def prepare(self) -> None:
        (self.folder / "log4j2.properties").write_text(LOGGING)
        properties = "".join(f"{name}={value}\n" for name, value in self._properties().items())
        (self.folder / "server.properties").write_text(properties)
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # A leading dash would read as an option.
        cluster = cluster.replace("-", "A")
        self.run(
            [*self._java(), "kafka.tools.StorageTool", "format", "-t", cluster, "-c", self._config]
        )

    def launch(self) -> None:
        self.spawn([*self._java(), "kafka.Kafka", self._config])

    def ready(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        client = AdminClient(
            {"bootstrap.servers": self.address, "log_level": 0, "socket.timeout.ms": 2000}
        )
        try:
            return bool(client.list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> str:
        """Make a topic and wait until the broker has it; returns its name."""
        from confluent_kafka.admin import AdminClient, NewTopic

        client = AdminClient({"bootstrap.servers": self.address})
        topic = NewTopic(
            name, partitions, 1, config={k.replace("_", "."): v for k, v in config.items()}
        )
        client.create_topics([topic], operation_timeout=20)[name].result(timeout=30)
        return name

    @property
    def _config(self) -> str:
        return str(self.folder / "server.properties")

    def _java(self) -> list[str]:
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"] if self.tuned else []
        return [
            jars.java(),
            f"-Xmx{self.heap}",
            *quick,
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            "-cp",
            jars.class_path(jars.KAFKA),
        ]

    def _properties(self) -> dict[str, str]:
        listeners = {"PLAINTEXT": self.port, "CONTROLLER": self.controller_port}
        advertised = {"PLAINTEXT": self.port}
        if self.proxied_by:
            listeners["PROXIED"] = self.proxied_port
            advertised["PROXIED"] = self.proxied_by
        if self.tls:
            secured = {"SSL": self.tls_port, "SASL_SSL": self.sasl_port}
            listeners |= secured
            advertised |= secured
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": _listed(listeners),
            "advertised.listeners": _listed(advertised),
            "listener.security.protocol.map": ",".join(
                f"{name}:{name if 'SSL' in name else 'PLAINTEXT'}" for name in listeners
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.folder / "data"),
            "num.partitions": "1",
            "offsets.topic.num.partitions": "4",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # A killed broker may come back as soon as its old session has ended.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            "num.network.threads": "2",
            "num.io.threads": "4",
            "log.segment.bytes": str(64 * 1024 * 1024),
            # The index files of many small topics would otherwise take 20 MB each up front.
            "log.index.size.max.bytes": str(1024 * 1024),
            "controlled.shutdown.enable": "false",
            # Records of tests are from years ago; Kafka deletes by their time, 30 s after a start.
            "log.retention.ms": "-1",
            **self._security(),
            **self.settings,
        }

    def _security(self) -> dict[str, str]:
        if not self.tls:
            return {}
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.tls.issue("127.0.0.1", "localhost").both),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": (
                f'{login} user_{self.user}="{self.password}";'
            ),
        }


def _listed(ports: dict[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
