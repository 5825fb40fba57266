"""Jars from Maven Central, fetched once into the cache that all runs on this machine share."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.brokers.server import Failed, Missing, program
from tests.cache import alone, cache

KAFKA = (
    "org.apache.kafka:kafka_2.13:4.1.0",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3",  # without it the broker logs nothing
)
ARTEMIS = (
    "org.apache.activemq:artemis-jms-server:2.42.0",
    "org.apache.activemq:artemis-jms-client-all:2.42.0",
)
ARTEMIS_CLIENT = ("org.apache.activemq:artemis-jms-client-all:2.42.0",)
JDK = "openjdk-17-jdk-headless"
TRIES = 3


def java() -> str:
    if home := os.environ.get("JAVA_HOME"):
        return program("java", JDK, str(Path(home) / "bin"))
    return program("java", JDK)


def fetch(coordinates: tuple[str, ...], *, transitive: bool = True) -> list[Path]:
    """The jars of these group:artifact:version coordinates and of all they need at run time."""
    name = coordinates[0].split(":")[1]
    key = hashlib.sha256("|".join((*coordinates, str(transitive))).encode()).hexdigest()[:12]
    folder = cache("jars") / f"{name}-{key}"
    with alone(folder):
        if not folder.exists():
            _copy(coordinates, folder, transitive)
    return sorted(folder.glob("*.jar"))


def class_path(coordinates: tuple[str, ...]) -> str:
    return os.pathsep.join(map(str, fetch(coordinates)))


def _copy(coordinates: tuple[str, ...], folder: Path, transitive: bool) -> None:
    maven = program("mvn", "maven")
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        pom = Path(work) / "pom.xml"
        pom.write_text(_pom(coordinates, transitive))
        arriving = Path(work) / "jars"
        command = [
            maven,
            "--batch-mode",
            "--quiet",
            f"--file={pom}",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            f"-DoutputDirectory={arriving}",
        ]
        for _ in range(TRIES):
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
            if done.returncode == 0:
                shutil.copytree(arriving, arriving.with_suffix(".whole"))
                os.rename(arriving.with_suffix(".whole"), folder)
                return
    said = f"Maven could not fetch {', '.join(coordinates)}:\n{(done.stdout + done.stderr)[-2000:]}"
    if "Unknown host" in said or "Could not transfer" in said:
        raise Missing(f"{said}\nIs Maven Central within reach?")
    raise Failed(said)


def _pom(coordinates: tuple[str, ...], transitive: bool) -> str:
    nothing_else = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{'' if transitive else nothing_else}</dependency>"
        for group, artifact, version in (one.split(":") for one in coordinates)
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>penstock</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
