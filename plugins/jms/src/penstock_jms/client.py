"""A live JMS connection with one session; made in the process and on the thread that uses it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from penstock.contracts.errors import OptionError, SetupError, did_you_mean
from penstock.contracts.secret import Secret
from penstock_jms import jvm
from penstock_jms.artemis import Artemis
from penstock_jms.failures import names, speaking
from penstock_jms.options import Connecting
from penstock_jms.vendors import VENDORS, shopping_list

_URL_SETTERS = ("setBrokerURL", "setRemoteURI", "setUri", "setServerUrl", "setJdbcURL", "setHost")
_NUMBERS = {"int": int, "long": int, "short": int, "byte": int, "float": float, "double": float}
_NUMBERS |= {"java.lang.Integer": int, "java.lang.Long": int, "java.lang.Double": float}
_TRUTH = {"true": True, "yes": True, "false": False, "no": False}


class Client:
    """A connection, one session on it, and the destination; closed once, from its own thread.

    Args:
        options: How to connect.
        transacted: Whether the session is transacted; else messages are acknowledged by hand.
        writing: Whether its failures are those of a write.
        fetch: How many bytes Artemis's client fetches ahead; None: as it is set.

    Attributes:
        artemis: What Artemis's client can do besides, where it is that and reads; else None.
    """

    artemis: Artemis | None = None

    def __init__(
        self,
        options: Connecting,
        *,
        transacted: bool,
        writing: bool = False,
        fetch: int | None = None,
    ) -> None:
        self.options = options
        self.writing = writing
        self.jars = jvm.find_jars(options.jars)
        self._jpype = jvm.start(tuple(options.jvm_options), brief=writing)
        self.loader = jvm.loader(self.jars)
        self._connection = None
        thread = self._jpype.JClass("java.lang.Thread").currentThread()
        thread.setContextClassLoader(self.loader)
        with speaking("connecting", writing=writing):
            self.factory = self._found_factory()
            self.namespace = self._namespace()
            artemis = None
            if Artemis.made(self.factory) and not writing:
                artemis = Artemis(self.java, self.factory, fetch)
            self._connection = self._connect()
            try:
                if options.client_id is not None:
                    self._connection.setClientID(options.client_id)
                mode = 0 if transacted else 2  # SESSION_TRANSACTED, CLIENT_ACKNOWLEDGE
                self.session = self._connection.createSession(transacted, mode)
                self.destination = self._destination()
                if artemis is not None:
                    artemis.attach(self.session, self.destination)
                    self.artemis = artemis
            except BaseException:
                self.close()
                raise

    @property
    def exceptions(self) -> Any:
        """What Java throws."""
        return self._jpype.JException

    def java(self, name: str) -> Any:
        """A class of these jars or of the platform."""
        return self._jpype.JClass(name, loader=self.loader)

    def begin(self) -> None:
        """Let messages flow in."""
        self._connection.start()

    def acknowledging(self, fresh: float = 0) -> AbstractContextManager[None]:
        """Within this messages are received, acknowledged, and given back.

        Args:
            fresh: Seconds in which a broker that has answered need not show again that it does.
        """
        return nullcontext() if self.artemis is None else self.artemis.acknowledging(fresh)

    def close(self) -> None:
        """Drop the connection; what its session has not committed goes back. Idempotent."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        # Closing says which messages were taken, so that the broker counts them as delivered.
        for way in (self.acknowledging(), nullcontext()):
            try:
                with way:
                    connection.close()
            except self._jpype.JException as error:
                # It is lost already, which is all that was wanted.
                jvm._log.info("closing a lost connection: %s", error)

    def named(self, name: str, *, queue: bool) -> Any:
        """A queue or topic by name."""
        return self.session.createQueue(name) if queue else self.session.createTopic(name)

    def _connect(self) -> Any:
        user, password = self.options.user, self.options.password
        if user is None:
            return self.factory.createConnection()
        return self.factory.createConnection(user, password.reveal() if password else "")

    def _destination(self) -> Any:
        options = self.options
        if options.jndi_destination:
            return self._context().lookup(options.queue or options.topic)
        if options.queue is not None:
            return self.named(options.queue, queue=True)
        return self.named(options.topic, queue=False)

    def _namespace(self) -> str:
        for namespace in ("jakarta.jms", "javax.jms"):
            kind = self._class(f"{namespace}.ConnectionFactory")
            if kind is not None and isinstance(self.factory, kind):
                return namespace
        raise SetupError(
            "the connection factory is none",
            who=jvm.WHO,
            expected="a jakarta.jms.ConnectionFactory or a javax.jms.ConnectionFactory",
            got=str(self.factory.getClass().getName()),
            fix="check the option factory or jndi_name",
        )

    def _class(self, name: str) -> Any:
        try:
            return self.java(name)
        except self._jpype.JException as error:
            if "ClassNotFoundException" in names(error):
                return None
            raise

    def _found_factory(self) -> Any:
        if self.options.jndi_name is not None:
            return self._context().lookup(self.options.jndi_name)
        wanted = self.options.factory
        known = (wanted,) if wanted else tuple(dict.fromkeys(v.factory for v in VENDORS))
        for name in known:
            kind = self._class(name)
            if kind is not None:
                return self._made(kind)
        raise SetupError(
            "the jars hold no JMS connection factory that is asked for",
            who=jvm.WHO,
            expected=f"the class {wanted}" if wanted else "the factory of a client we know",
            got=", ".join(Path(jar).name for jar in self.jars),
            fix=f"name its class in the option factory, or fetch a client: {shopping_list()}",
        )

    def _made(self, kind: Any) -> Any:
        url = self.options.url
        takes_url = any(
            [str(p.getName()) for p in each.getParameterTypes()] == ["java.lang.String"]
            for each in kind.class_.getConstructors()
        )
        if url is not None and takes_url:
            factory = kind(url)
        else:
            factory = kind()
            if url is not None:
                self._set_url(factory, url)
        for name, value in self.options.properties.items():
            self._set(factory, name, value)
        return factory

    def _set_url(self, factory: Any, url: str) -> None:
        for setter in _URL_SETTERS:
            if hasattr(factory, setter):
                getattr(factory, setter)(url)
                return
        raise OptionError(
            "this connection factory takes no url",
            who=jvm.WHO,
            got=str(factory.getClass().getName()),
            fix="give its settings as property.*",
        )

    def _set(self, factory: Any, name: str, value: str | Secret) -> None:
        setters: dict[str, list[Any]] = {}
        for method in factory.getClass().getMethods():
            called = str(method.getName())
            if called.startswith("set") and method.getParameterCount() == 1:
                setters.setdefault(called[3:].lower(), []).append(method)
        candidates = setters.get(name.lower())
        if candidates is None:
            raise OptionError(
                f"the connection factory has no property {name}",
                who=jvm.WHO,
                expected="one of " + ", ".join(sorted(setters)),
                fix=did_you_mean(name.lower(), setters) or "remove it",
            )
        text = value.reveal() if isinstance(value, Secret) else value
        for method in candidates:
            wanted = str(method.getParameterTypes()[0].getName())
            try:
                given = _as(text, wanted)
            except (ValueError, KeyError):
                continue
            getattr(factory, str(method.getName()))(given)
            return
        shown = "***" if isinstance(value, Secret) else repr(value)
        raise OptionError(
            f"the property {name} has the wrong type",
            who=jvm.WHO,
            expected=" or ".join(str(m.getParameterTypes()[0].getName()) for m in candidates),
            got=shown,
        )

    def _context(self) -> Any:
        environment = self.java("java.util.Properties")()
        if self.options.jndi_file is not None:
            try:
                text = Path(self.options.jndi_file).read_text(encoding="utf-8")
            except OSError as error:
                raise SetupError(
                    "the JNDI file cannot be read",
                    who=jvm.WHO,
                    got=f"{self.options.jndi_file}: {error.strerror}",
                    fix="give a path that exists on the driver and on every executor",
                ) from None
            environment.load(self.java("java.io.StringReader")(text))
        for name, value in self.options.jndi.items():
            text = value.reveal() if isinstance(value, Secret) else value
            environment.setProperty(name, text)
        return self.java("javax.naming.InitialContext")(environment)


def _as(text: str, wanted: str) -> Any:
    if wanted == "java.lang.String":
        return text
    if wanted in ("boolean", "java.lang.Boolean"):
        return _TRUTH[text.strip().lower()]
    return _NUMBERS[wanted](text)
