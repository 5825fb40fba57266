"""A Spark that starts quickly: a suite kills and starts many drivers, and each lives for seconds.

Spark lets its Python processes import `pyspark` from an archive, which Python compiles anew in
each of them: over a second of CPU every time. So it is told of a home where the archive is a
folder, with the very files that pip has installed.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@cache
def environment() -> dict[str, str]:
    """What to set, where the user has not, before Spark is started."""
    found = {"SPARK_LAUNCHER_OPTS": _FLAGS, "SPARK_SUBMIT_OPTS": _FLAGS}
    home = _home()
    return found if home is None else {**found, "SPARK_HOME": str(home)}


@contextmanager
def starting() -> Iterator[None]:
    """While a session is made; programs that are started later know nothing of it."""
    added = {name: value for name, value in environment().items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _home() -> Path | None:
    """The installed Spark once more, by links; None where it is laid out otherwise."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    installed = Path(spec.origin).parent
    archive = installed / "python" / "lib" / "pyspark.zip"
    if not (archive.is_file() and (installed / "bin").is_dir() and (installed / "jars").is_dir()):
        return None
    home = Path(tempfile.mkdtemp(prefix="penstock-spark-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in ("bin", "jars", "sbin"):
        (home / name).symlink_to(installed / name)
    library = home / "python" / "lib"
    (library / archive.name).mkdir(parents=True)
    (library / archive.name / "pyspark").symlink_to(installed)
    for other in archive.parent.glob("py4j-*.zip"):
        (library / other.name).symlink_to(other)
    return home
