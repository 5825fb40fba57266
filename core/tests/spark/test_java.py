import pytest

from penstock.contracts.errors import SetupError
from penstock.spark.java import java_version, require_java


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder that passes for a Java installation."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\" 2023-10-17' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return tmp_path


def test_the_version_is_read_from_the_installation_without_starting_it(home):
    (home / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.15"\n')
    assert java_version() == 17


@pytest.mark.parametrize("release", [None, 'IMPLEMENTOR="x"\n'])
def test_an_installation_that_does_not_say_is_started(home, release):
    if release is not None:
        (home / "release").write_text(release)
    assert java_version() == 21


def test_an_old_numbering_is_understood_and_refused(home):
    (home / "release").write_text('JAVA_VERSION="1.8.0_402"\n')
    with pytest.raises(SetupError, match="Java 8 was found"):
        require_java()
