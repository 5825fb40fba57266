"""The one Java virtual machine of this process, and a class loader for each set of jars.

Nothing here runs at import: a machine that was started before a fork is dead in the child, and
PySpark forks its workers. The jars are not on the machine's own class path: two connectors with
different jars, or both namespaces of JMS, then live side by side in one worker.
"""

from __future__ import annotations

import faulthandler
import glob
import logging
import os
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

from penstock.contracts.errors import SetupError
from penstock_jms.vendors import shopping_list

JARS = "PENSTOCK_JMS_JARS"
WHO = "jms (penstock-jms)"

# SIGTERM stays Python's: a stream reader acknowledges its last batch then. And standard output
# is for whoever runs the process: Spark and the receivers speak through it.
_OURS = (
    "-Xrs",
    "-XX:+DisplayVMOutputToStderr",
    # JPype lets each collector call the other, which then never end: nothing in Java holds what
    # only Python could free.
    "-XX:+DisableExplicitGC",
)
# A worker writes its shares in moments, and ends when it is idle: Java's second compiler would
# take more than it saves. Who reads lives as long as the query: it saves a third of the CPU there.
_BRIEF = "-XX:TieredStopAtLevel=1"

_log = logging.getLogger("penstock.jms")
_lock = threading.Lock()
_started: tuple[int, tuple[str, ...]] | None = None


def find_jars(given: list[str] | None) -> tuple[str, ...]:
    """The jars an option or the environment names: files, folders, patterns.

    Raises:
        SetupError: none is named, or a name leads to no jar.
    """
    named = given or [n for n in os.environ.get(JARS, "").split(os.pathsep) if n]
    if not named:
        raise SetupError(
            "no JMS client library is named",
            who=WHO,
            expected=f"the option jars, or the environment variable {JARS}",
            got="neither",
            fix=f"fetch your broker's client from Maven Central: {shopping_list()}",
        )
    found: list[str] = []
    for name in named:
        pattern = os.path.join(name, "*.jar") if os.path.isdir(name) else name
        matching = sorted(glob.glob(pattern))
        if not matching:
            raise SetupError(
                "a JMS client library is not there",
                who=WHO,
                expected="a jar, a folder of jars, or a pattern that matches some",
                got=name,
                fix="give a path that exists on the driver and on every executor; "
                f"clients of common brokers: {shopping_list()}",
            )
        found += matching
    return tuple(dict.fromkeys(str(Path(jar).resolve()) for jar in found))


def start(options: tuple[str, ...], *, brief: bool = False) -> Any:
    """The `jpype` module with a running machine; the first caller's options decide.

    Args:
        options: The user's.
        brief: Whether the caller's work is over in moments.

    Raises:
        SetupError: no Java, bad options, or a machine inherited over a fork.
    """
    global _started
    import jpype

    with _lock:
        # Python's fault handler and Java both want SIGSEGV. Java needs it to work at all, and
        # the handler that is disabled last must not be the one that puts the old state back.
        faulthandler.disable()
        if _started is not None and _started[0] != os.getpid():
            raise SetupError(
                "the Java virtual machine was started before this process was forked",
                who=WHO,
                expected="a process that starts its own",
                got=f"a machine of process {_started[0]} in process {os.getpid()}",
                fix="open JMS connections only in the process that uses them, or spawn "
                "processes instead of forking them",
            )
        if jpype.isJVMStarted():
            _warn_of_other(options)
            return jpype
        try:
            ours = (*_OURS, _BRIEF) if brief else _OURS
            jpype.startJVM(*ours, *options, classpath=[], interrupt=False)
        except jpype.JVMNotFoundException as missing:
            raise SetupError(
                "Java is not found",
                who=WHO,
                expected="a Java 11 or later, found by JAVA_HOME",
                got=str(missing),
                fix="install one (Debian: apt-get install openjdk-17-jre-headless)",
            ) from None
        except (RuntimeError, OSError) as refused:
            raise SetupError(
                "the Java virtual machine does not start",
                who=WHO,
                expected="options that this Java takes",
                got=f"{' '.join(options)}: {refused}",
                fix="check the option jvm_options",
            ) from None
        _started = (os.getpid(), options)
        return jpype


@lru_cache(maxsize=32)
def _warn_of_other(options: tuple[str, ...]) -> None:
    if _started is None or _started[1] != options:
        running = "another library's" if _started is None else " ".join(_started[1])
        _log.warning(
            "the Java machine of this process runs already with %s options; %s has no effect",
            running,
            " ".join(options),
        )


@lru_cache(maxsize=32)
def loader(jars: tuple[str, ...]) -> Any:
    """A class loader over these jars and the Java platform alone. Call `start` first."""
    import jpype

    file = jpype.JClass("java.io.File")
    urls = [file(jar).toURI().toURL() for jar in jars]
    platform = jpype.JClass("java.lang.ClassLoader").getPlatformClassLoader()
    return jpype.JClass("java.net.URLClassLoader")(urls, platform)
