"""What source and sink share: how to reach the broker."""

from __future__ import annotations

import re

from penstock.contracts.errors import OptionError
from penstock.contracts.hosts import is_loopback
from penstock.contracts.options import Configured, connector, option
from penstock.contracts.secret import Secret

_ADDRESS = re.compile(r"([a-z][a-z0-9+.]*)://(\[[0-9a-f:]+\]|[^:/?,()\s]+)", re.IGNORECASE)
_CREDENTIALS = re.compile(r"(?i)[?&;,(](?:[\w.]*\.)?(?:password|passcode)=|://[^/@\s]*:[^/@\s]*@")
_REMOTE_NAME = re.compile(r"(?i)^\s*(?:ldaps?|rmi|iiop|dns|nis|corba\w*|https?|file):|://")
_PRIVATE = ("ssl", "tls", "amqps", "amqpws", "wss", "https", "tcps", "smfs", "vm", "nio+ssl")


@connector
class Connecting(Configured):
    """Options of a JMS connection."""

    jars: list[str] | None = option(
        default=None,
        doc="The client library: jars, folders of jars or patterns. Default: what the "
        "environment variable PENSTOCK_JMS_JARS names. Needed on the driver and all executors.",
        example="/opt/artemis/artemis-jms-client-all-2.42.0.jar",
    )
    factory: str | None = option(
        default=None,
        doc="Class of the connection factory. Default: found by what the jars hold.",
        example="org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory",
    )
    url: str | None = option(
        default=None,
        doc="The broker's address, in its client's own form.",
        example="tcp://mq:61616",
    )
    properties: dict[str, str | Secret] = option(
        doc="Settings of the factory, by the name of its setter: `property.hostName` calls "
        "`setHostName`. Upper and lower case do not matter.",
        prefix="property.",
        example="property.queueManager=QM1",
    )
    jndi_name: str | None = option(
        default=None,
        doc="Look the connection factory up in JNDI by this name instead.",
        example="ConnectionFactory",
    )
    jndi_file: str | None = option(
        default=None, doc="A jndi.properties file with the JNDI environment."
    )
    jndi: dict[str, str | Secret] = option(
        doc="Further entries of the JNDI environment. Spark writes option names in lower case: "
        "names with capitals belong in `jndi_file`.",
        prefix="jndi.",
        example="jndi.java.naming.provider.url=tcp://mq:61616",
    )
    user: str | None = option(default=None, doc="The user.")
    password: Secret | None = option(default=None, doc="The user's password.")
    client_id: str | None = option(
        default=None, doc="The connection's client id; a durable subscription belongs to it."
    )
    plaintext: bool = option(
        default=False,
        doc="Allow a password to travel unencrypted to a host other than this one.",
    )
    jvm_options: list[str] = option(
        factory=lambda: ["-Xmx512m", "-Xmn256m", "-XX:+UseSerialGC"],
        doc="Options of the Java machine in each Python process. It starts once per process: "
        "the first connector that needs it decides.",
    )
    queue: str | None = option(default=None, doc="The queue.")
    topic: str | None = option(default=None, doc="The topic.")
    jndi_destination: bool = option(
        default=False, doc="`queue` or `topic` is a JNDI name to look the destination up by."
    )

    def settle(self) -> None:
        """Refuse what cannot work together."""
        if (self.queue is None) == (self.topic is None):
            raise OptionError(
                "a JMS connector has one destination",
                expected="queue or topic",
                got="both" if self.queue is not None else "neither",
                fix="give one of them",
            )
        if self.jndi_name is None and (self.jndi or self.jndi_file or self.jndi_destination):
            raise OptionError("JNDI settings without a name to look up", fix="add jndi_name=...")
        if self.jndi_name is not None and (self.factory or self.url or self.properties):
            raise OptionError(
                "the connection factory comes either from JNDI or from a class",
                expected="jndi_name with jndi.* or jndi_file; or factory, url and property.*",
                got="both",
                fix="drop one of the two",
            )
        self._refuse_remote_names()
        self._refuse_open_secrets()

    def _refuse_remote_names(self) -> None:
        looked_up = [self.jndi_name]
        if self.jndi_destination:
            looked_up += [self.queue, self.topic]
        for name in looked_up:
            if name is not None and _REMOTE_NAME.search(name):
                raise OptionError(
                    "a JNDI name must not lead to another server",
                    expected="a plain name within the configured JNDI provider",
                    got=name,
                    fix="put the server into jndi.java.naming.provider.url",
                )

    def _refuse_open_secrets(self) -> None:
        if self.url is None:
            return
        if _CREDENTIALS.search(self.url):
            raise OptionError(
                "the url holds a password, which would show in plans and logs",
                expected="the options user and password",
                got="url=***",
                fix="take it out of the url; give password=${env:NAME} or ${file:PATH}",
            )
        if self.password is None or self.plaintext or "sslenabled=true" in self.url.lower():
            return
        for scheme, host in _ADDRESS.findall(self.url):
            if scheme.lower() not in _PRIVATE and not is_loopback(host.strip("[]").lower()):
                raise OptionError(
                    f"the password would travel unencrypted to {host}",
                    expected="an encrypted connection (ssl://, amqps://, sslEnabled=true)",
                    got=f"{scheme}://{host}",
                    fix="turn TLS on in the url, or set plaintext=true if the network is trusted",
                )
