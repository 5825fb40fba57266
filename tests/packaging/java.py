"""Say in one sentence if Spark would find no Java, or one too old."""

import os
import re
import shutil
import subprocess
import sys

OLDEST = 17


def complaint() -> str | None:
    """What to do about Java; None if nothing."""
    advice = f"install Java {OLDEST} or newer (Debian: apt-get install openjdk-17-jdk-headless)"
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    if not path:
        place = f"JAVA_HOME={home}" if home else "PATH"
        return f"Penstock runs on Spark, which needs Java, and there is none in {place}: {advice}."
    said = subprocess.run([path, "-version"], capture_output=True, text=True)
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    if not found:
        return f"{path} does not say its version: {advice}."
    if int(found[1]) < OLDEST:
        return f"{path} is Java {found[1]}, too old for Spark: {advice}, or set JAVA_HOME."
    return None


if __name__ == "__main__":
    sys.exit(complaint())
