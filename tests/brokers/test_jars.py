"""The jar cache, with a Maven that only counts how often it is called."""

import threading

import pytest

from tests.brokers import jars
from tests.brokers.server import Failed, Missing

MAVEN = """#!/bin/sh
echo called >> {folder}/calls
{before}
for word in "$@"; do case "$word" in -DoutputDirectory=*) out="${{word#*=}}";; esac; done
mkdir -p "$out" && echo jar > "$out/broker-1.0.jar"
"""


@pytest.fixture
def maven(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def install(before=""):
        program = tmp_path / "mvn"
        program.write_text(MAVEN.format(folder=tmp_path, before=before))
        program.chmod(0o755)

    install()
    return install


def calls(tmp_path):
    return (tmp_path / "calls").read_text().count("called")


COORDINATES = ("org.example:broker:1.0",)


def test_jars_are_fetched_once(maven, tmp_path):
    first = jars.fetch(COORDINATES)
    assert [path.name for path in first] == ["broker-1.0.jar"]
    assert jars.fetch(COORDINATES) == first
    assert calls(tmp_path) == 1


def test_other_coordinates_are_other_jars(maven, tmp_path):
    first = jars.fetch(COORDINATES)
    assert jars.fetch(("org.example:broker:2.0",)) != first
    assert jars.fetch(COORDINATES, transitive=False) != first
    assert calls(tmp_path) == 3


def test_many_at_once_fetch_once(maven, tmp_path):
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(jars.fetch(COORDINATES))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert calls(tmp_path) == 1


def test_a_failed_fetch_leaves_nothing_and_is_tried_again(maven, tmp_path):
    maven(before="echo 'no such artifact'; exit 1")
    with pytest.raises(Failed, match="no such artifact"):
        jars.fetch(COORDINATES)
    assert calls(tmp_path) == jars.TRIES
    maven()
    assert jars.fetch(COORDINATES)


def test_a_machine_without_network_lacks_the_server(maven):
    maven(before="echo 'Could not transfer artifact'; exit 1")
    with pytest.raises(Missing, match="Is Maven Central within reach"):
        jars.fetch(COORDINATES)


def test_a_machine_without_maven_is_told_what_to_install(maven, monkeypatch, tmp_path):
    (tmp_path / "mvn").unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Missing, match="apt-get install maven"):
        jars.fetch(COORDINATES)
