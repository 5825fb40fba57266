"""An object store with the interface of S3, as moto emulates it."""

import importlib.util
import sys
import urllib.request

from tests.brokers.ports import free_port
from tests.brokers.server import Missing, Server


class ObjectStore(Server):
    """An emulated S3, in memory: a restart empties it. Any key and secret are taken."""

    name = "s3"

    def __init__(self) -> None:
        super().__init__()
        self.port = free_port()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        for module in ("moto", "flask", "flask_cors"):
            if importlib.util.find_spec(module) is None:
                raise Missing(f"{module} is not installed: pip install 'moto[s3]' flask flask-cors")

    def launch(self) -> None:
        self.spawn([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)])

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/moto-api/data.json", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False
