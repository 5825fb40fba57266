"""ActiveMQ Artemis, embedded in a small Java program beside this file."""

import os
from pathlib import Path

from tests.brokers import jars
from tests.brokers.ports import answers, free_port
from tests.brokers.server import Server, program

BROKER = Path(__file__).with_name("Broker.java")


class Artemis(Server):
    """A JMS broker at tcp://127.0.0.1:port; `client_jars` are what a JMS client needs."""

    name = "artemis"
    user = password = "penstock"

    def __init__(self, *, heap: str = "256m") -> None:
        super().__init__()
        self.heap = heap
        self.port = free_port()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

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
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        data = str(self.folder / "data")
        command = [jars.java(), f"-Xmx{self.heap}", *quick, "-cp", path, "Broker", data]
        self.spawn([*command, str(self.port), self.user, self.password])

    def ready(self) -> bool:
        return answers(self.port) and "ready" in self.log.read_text(errors="replace")
