"""RabbitMQ: one node, with an epmd of its own."""

import os
from pathlib import Path

from tests.brokers.certificates import Authority
from tests.brokers.ports import answers, free_port
from tests.brokers.server import Missing, Server, program

SCRIPTS = Path("/usr/lib/rabbitmq/bin")  # Debian's wrappers in /usr/sbin insist on another user

CONFIGURATION = """\
listeners.tcp.local = 127.0.0.1:{port}
loopback_users = none
log.console = true
log.console.level = warning
disk_free_limit.absolute = 50MB
vm_memory_high_watermark.absolute = 1GB
{further}
"""


class RabbitMQ(Server):
    """A broker at amqp://guest:guest@127.0.0.1:port/.

    Args:
        settings: further lines for rabbitmq.conf.
        plugins: to enable, such as "rabbitmq_management".
        tls: what signs a certificate for 127.0.0.1; adds a TLS listener at `tls_address`.
    """

    name = "rabbitmq"
    patience = 90.0
    user = password = "guest"

    def __init__(
        self,
        settings: dict[str, str] | None = None,
        plugins: tuple[str, ...] = (),
        *,
        tls: Authority | None = None,
    ) -> None:
        super().__init__()
        self.settings = settings or {}
        self.plugins = plugins
        self.tls = tls
        self.tls_port = free_port()
        self.port = free_port()
        self.epmd_port = free_port()
        self.dist_port = free_port()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def tls_address(self) -> str:
        return f"127.0.0.1:{self.tls_port}"

    @property
    def url(self) -> str:
        return f"amqp://{self.user}:{self.password}@{self.address}/"

    def prepare(self) -> None:
        self._script("rabbitmq-server")
        further = "\n".join(f"{name} = {value}" for name, value in self._settings().items())
        text = CONFIGURATION.format(port=self.port, further=further)
        (self.folder / "rabbitmq.conf").write_text(text)
        (self.folder / "enabled_plugins").write_text(f"[{','.join(self.plugins)}].\n")
        (self.folder / "env.conf").touch()

    def launch(self) -> None:
        self.spawn([program("epmd", "erlang-base"), "-port", str(self.epmd_port)], self._env())
        self.spawn([self._script("rabbitmq-server")], self._env())

    def ready(self) -> bool:
        if not answers(self.port):
            return False
        import pika
        from pika.exceptions import AMQPError

        parameters = pika.URLParameters(self.url)
        parameters.socket_timeout = parameters.blocked_connection_timeout = 5
        try:
            pika.BlockingConnection(parameters).close()
        except (AMQPError, OSError):
            return False
        return True

    def ctl(self, *arguments: str) -> str:
        """Run `rabbitmqctl`; takes a second or two."""
        return self.run([self._script("rabbitmqctl"), "--quiet", *arguments], self._env())

    def connection(self):
        """A new blocking pika connection."""
        import pika

        return pika.BlockingConnection(pika.URLParameters(self.url))

    def _settings(self) -> dict[str, str]:
        if not self.tls:
            return self.settings
        issued = self.tls.issue("127.0.0.1", "localhost")
        return {
            "listeners.ssl.local": self.tls_address,
            "ssl_options.cacertfile": str(self.tls.ca),
            "ssl_options.certfile": str(issued.certificate),
            "ssl_options.keyfile": str(issued.key),
            "ssl_options.verify": "verify_none",
            **self.settings,
        }

    def _script(self, name: str) -> str:
        if not (SCRIPTS / name).exists():
            raise Missing("RabbitMQ is not installed: apt-get install rabbitmq-server")
        return str(SCRIPTS / name)

    def _env(self) -> dict[str, str]:
        at = self.folder
        return {
            "HOME": str(at),  # the Erlang cookie is made here
            "PATH": os.environ.get("PATH", "") + ":/usr/sbin",
            "ERL_EPMD_PORT": str(self.epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"penstock-{self.port}@localhost",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self.dist_port),
            "RABBITMQ_MNESIA_BASE": str(at / "mnesia"),
            "RABBITMQ_LOG_BASE": str(at / "log"),
            "RABBITMQ_PID_FILE": str(at / "pid"),
            "RABBITMQ_CONFIG_FILE": str(at / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(at / "env.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(at / "enabled_plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none",
            # Makes the script become the server, so that signals reach it and not a shell.
            "RUNNING_UNDER_SYSTEMD": "true",
        }
