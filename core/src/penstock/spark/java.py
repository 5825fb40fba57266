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
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(match.group(1)) if match else None


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
