import pytest

from tests.packaging.java import complaint


@pytest.fixture
def java(tmp_path, monkeypatch):
    """Put a Java of some version where it is looked for."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/sbin:/bin")
    (tmp_path / "bin").mkdir()

    def install(says):
        program = tmp_path / "bin" / "java"
        program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
        program.chmod(0o755)
        return tmp_path

    return install


@pytest.mark.parametrize("says", ['openjdk version "17.0.15" 2025-04-15', 'java version "21" 2023'])
def test_a_java_that_will_do_is_no_matter(java, says):
    java(says)
    assert complaint() is None


def test_an_old_java_is_named_with_what_to_install(java):
    java('java version "1.8.0_392"')
    said = complaint()
    assert "is Java 8, too old for Spark" in said
    assert "install Java 17 or newer" in said
    assert "\n" not in said


def test_no_java_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert complaint().startswith(
        "Penstock runs on Spark, which needs Java, and there is none in PATH"
    )


def test_a_wrong_java_home_is_named_although_there_is_a_java_elsewhere(java, monkeypatch):
    java('openjdk version "17"')
    monkeypatch.setenv("JAVA_HOME", "/no/such/place")
    assert "none in JAVA_HOME=/no/such/place: install" in complaint()


def test_what_is_no_java_at_all_is_refused(java):
    java("hello")
    assert "does not say its version" in complaint()
