"""Is there a Java that Spark can start? Asked without importing Spark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from penstock.contracts.errors import SetupError

JAVA_NEEDED = 17


def java_version() -> int | None:
    """The major version of the Java that Spark will start; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.path.exists(java):
        return None
    match = re.search(r'(?i)version[ =]"(?:1\.)?(\d+)', _released(java) or _said(java))
    return int(match.group(1)) if match else None


def _released(java: str) -> str:
    """The file in which a JDK says what it is: read in no time, where starting it takes some."""
    home = os.path.dirname(os.path.dirname(os.path.realpath(java)))
    try:
        with open(os.path.join(home, "release"), encoding="utf-8") as file:
            return "".join(line for line in file if line.startswith("JAVA_VERSION="))
    except (OSError, UnicodeDecodeError):
        return ""


def _said(java: str) -> str:
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    return done.stderr + done.stdout


def require_java() -> None:
    """See that Spark can start.

    Raises:
        SetupError: one sentence on what to install.
    """
    found = java_version()
    if found is None or found < JAVA_NEEDED:
        got = "no Java was found" if found is None else f"Java {found} was found"
        raise SetupError(
            f"Spark needs Java {JAVA_NEEDED} or newer, {got}",
            fix=f"install a JDK {JAVA_NEEDED} (Debian: apt install openjdk-17-jre-headless; macOS: "
            "brew install openjdk@17) and set JAVA_HOME to it",
        )
