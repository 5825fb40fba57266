"""ActiveMQ Artemis, embedded in a small Java program beside this file."""

import os
from pathlib import Path

from tests.brokers import jars
from tests.brokers.certificates import STORE_PASSWORD, Authority
from tests.brokers.ports import answers, free_port
from tests.brokers.server import Server, program

BROKER = Path(__file__).with_name("Broker.java")


class Artemis(Server):
    """A JMS broker at tcp://127.0.0.1:port; `client_jars` are what a JMS client needs.

    Args:
        heap: the JVM's heap; give a benchmark more.
        tuned: False leaves the JVM its full compiler, for benchmarks.
        tls: what signs a certificate for 127.0.0.1; adds a TLS listener at `tls_address`.
    """

    name = "artemis"
    user = password = "penstock"

    def __init__(
        self, *, heap: str = "256m", tuned: bool = True, tls: Authority | None = None
    ) -> None:
        super().__init__()
        self.heap = heap
        self.tuned = tuned
        self.port = free_port()
        self.tls = tls
        self.tls_port = free_port()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def tls_address(self) -> str:
        return f"127.0.0.1:{self.tls_port}"

    @property
    def url(self) -> str:
        return f"tcp://{self.address}"

    @property
    def client_jars(self) -> list[Path]:
        return jars.fetch(jars.ARTEMIS_CLIENT)

    def prepare(self) -> None:
        javac = program("javac", jars.JDK, str(Path(jars.java()).resolve().parent))
        path = jars.class_path(jars.ARTEMIS)
        self.run([javac, "-nowarn", "-cp", path, "-d", str(self.folder / "classes"), str(BROKER)])

    def launch(self) -> None:
        self.log.unlink(missing_ok=True)
        path = os.pathsep.join([str(self.folder / "classes"), jars.class_path(jars.ARTEMIS)])
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"] if self.tuned else []
        data = str(self.folder / "data")
        command = [jars.java(), f"-Xmx{self.heap}", *quick, "-cp", path, "Broker", data]
        self.spawn([*command, self.user, self.password, *self._acceptors()])

    def _acceptors(self) -> list[str]:
        acceptors = [f"tcp://{self.address}?protocols=CORE"]
        if self.tls:
            store = self.tls.issue("127.0.0.1", "localhost").keystore
            acceptors.append(
                f"tcp://{self.tls_address}?protocols=CORE;sslEnabled=true;keyStoreType=PKCS12;"
                f"keyStorePath={store};keyStorePassword={STORE_PASSWORD}"
            )
        return acceptors

    def ready(self) -> bool:
        return answers(self.port) and "ready" in self.log.read_text(errors="replace")
