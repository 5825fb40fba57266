import os
import subprocess
import sys

import pytest

from penstock.contracts.errors import OptionError, SetupError
from penstock.contracts.options import parse, to_strings
from penstock_jms import jvm
from penstock_jms.sink import JmsSink
from penstock_jms.source import JmsSource

QUEUE = {"queue": "q", "url": "tcp://localhost:61616"}


@pytest.mark.parametrize("cls", [JmsSource, JmsSink])
@pytest.mark.parametrize("given", [{}, {"queue": "a", "topic": "b"}])
def test_a_connector_has_one_destination(cls, given):
    with pytest.raises(OptionError, match="one destination"):
        parse(cls, given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"topic": "t"}, "durable subscription"),
        ({"queue": "q", "subscription": "s"}, "durable subscription"),
        ({"topic": "t", "subscription": "s"}, "client id"),
        ({"queue": "q", "shared": True}, "only a subscription"),
    ],
)
def test_a_topic_is_read_through_a_durable_subscription(given, says):
    with pytest.raises(OptionError, match=says):
        parse(JmsSource, given)


def test_a_shared_subscription_needs_no_client_id():
    parse(JmsSource, {"topic": "t", "subscription": "s", "shared": "true"})


def test_jndi_and_a_factory_class_contradict_each_other():
    with pytest.raises(OptionError, match="either from JNDI or from a class"):
        parse(JmsSource, {**QUEUE, "jndi_name": "ConnectionFactory"})


def test_jndi_settings_without_a_name_are_refused():
    with pytest.raises(OptionError, match="without a name"):
        parse(JmsSource, {"queue": "q", "jndi.java.naming.provider.url": "tcp://localhost"})


@pytest.mark.parametrize("name", ["ldap://evil/x", "rmi://evil/x", "LDAP:x", "dns:evil"])
def test_a_jndi_name_never_leads_to_another_server(name):
    with pytest.raises(OptionError, match="another server"):
        parse(JmsSource, {"queue": "q", "jndi_name": name})
    with pytest.raises(OptionError, match="another server"):
        parse(JmsSource, {"queue": name, "jndi_name": "cf", "jndi_destination": True})


@pytest.mark.parametrize(
    "url",
    [
        "tcp://localhost:61616?user=a&password=canary",
        "failover:(tcp://localhost:1)?jms.password=canary",
        "amqp://user:canary@localhost",
    ],
)
def test_a_password_in_the_url_is_refused_and_not_repeated(url):
    with pytest.raises(OptionError, match="holds a password") as caught:
        parse(JmsSource, {"queue": "q", "url": url})
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "taken"),
    [
        ("tcp://mq.example.org:61616", False),
        ("(tcp://localhost:1,tcp://mq.example.org:2)?ha=true", False),
        ("tcp://mq.example.org:61616?sslEnabled=true", True),
        ("ssl://mq.example.org:61617", True),
        ("amqps://mq.example.org", True),
        ("tcp://localhost:61616", True),
        ("tcp://127.0.0.1:61616", True),
        ("tcp://[::1]:61616", True),
    ],
)
def test_a_password_travels_encrypted_or_stays_on_this_host(url, taken):
    given = {"queue": "q", "url": url, "user": "u", "password": "p"}
    if taken:
        parse(JmsSource, given)
        return
    with pytest.raises(OptionError, match="unencrypted"):
        parse(JmsSource, given)
    parse(JmsSource, {**given, "plaintext": "true"})


def test_options_survive_sparks_strings():
    given = {
        "queue": "q",
        "jars": "/a.jar,/b.jar",
        "property.hostName": "mq",
        "property.password": "${env:SECRET}",
        "jvm_options": "-Xmx64m,-Xss1m",
    }
    source = parse(JmsSource, given)
    assert source.jvm_options == ["-Xmx64m", "-Xss1m"]
    assert parse(JmsSource, to_strings(source)) == source


def test_no_named_jar_tells_where_common_brokers_have_theirs(monkeypatch):
    monkeypatch.delenv(jvm.JARS, raising=False)
    with pytest.raises(SetupError) as caught:
        parse(JmsSource, QUEUE).check()
    said = str(caught.value)
    assert jvm.JARS in said
    for known in ("artemis-jms-client-all", "com.ibm.mq.allclient", "sol-jms", "aqapi"):
        assert known in said


def test_a_missing_jar_is_named(tmp_path):
    with pytest.raises(SetupError, match=r"not there[^$]*nowhere\.jar"):
        jvm.find_jars([str(tmp_path / "nowhere.jar")])


def test_jars_are_found_by_folder_pattern_and_environment(tmp_path, monkeypatch):
    for name in ("a.jar", "b.jar", "c.txt"):
        (tmp_path / name).touch()
    both = (str(tmp_path / "a.jar"), str(tmp_path / "b.jar"))
    assert jvm.find_jars([str(tmp_path)]) == both
    assert jvm.find_jars([str(tmp_path / "*.jar")]) == both
    monkeypatch.setenv(jvm.JARS, f"{tmp_path}/b.jar{os.pathsep}{tmp_path}/a.jar")
    assert jvm.find_jars(None) == both[::-1]


def test_a_machine_from_before_a_fork_is_refused(monkeypatch):
    monkeypatch.setattr(jvm, "_started", (os.getpid() + 1, ()))
    with pytest.raises(SetupError, match="before this process was forked"):
        jvm.start(("-Xmx64m",))


def test_importing_the_connector_imports_no_java_bridge():
    code = "import sys, penstock_jms; assert not {'jpype', 'pyspark'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_bad_java_options_are_told_as_such():
    code = (
        "from penstock_jms import jvm\n"
        "from penstock.contracts.errors import SetupError\n"
        "try: jvm.start(('-XX:+SurelyNoOption',))\n"
        "except SetupError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "does not start" in done.stdout, done.stderr
    assert "-XX:+SurelyNoOption" in done.stdout


@pytest.mark.parametrize("brief", [True, False])
def test_brief_work_has_a_java_without_its_second_compiler(brief):
    code = (
        "from penstock_jms import jvm\n"
        f"jvm.start((), brief={brief})\n"
        "import jpype.imports\n"
        "from java.lang.management import ManagementFactory\n"
        "print(list(map(str, ManagementFactory.getRuntimeMXBean().getInputArguments())))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ("TieredStopAtLevel=1" in done.stdout) is brief, done.stdout


@pytest.mark.parametrize(
    ("given", "same"),
    [
        ({}, True),
        ({"session": "client", "object_messages": "row", "user": "me"}, True),
        ({"queue": "r"}, False),
        ({"url": "tcp://localhost:61617"}, False),
        ({"selector": "region = 'EU'"}, False),
    ],
)
def test_sources_of_one_queue_are_known_by_broker_queue_and_selector(given, same):
    one, other = parse(JmsSource, QUEUE), parse(JmsSource, {**QUEUE, **given})
    assert (one.takes_from() == other.takes_from()) is same


def test_sources_of_one_subscription_are_known_by_its_name():
    topic = {"topic": "t", "url": "tcp://localhost:61616", "client_id": "c", "subscription": "s"}
    one = parse(JmsSource, topic)
    assert one.takes_from() == parse(JmsSource, {**topic, "session": "client"}).takes_from()
    assert one.takes_from() != parse(JmsSource, {**topic, "subscription": "r"}).takes_from()
