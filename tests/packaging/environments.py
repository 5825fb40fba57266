"""Empty Python environments, made quickly, to install wheels into."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.packaging.wheels import pyspark, requirement, uv


class Environment:
    """An environment with nothing in it but what is installed by `install`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        uv("venv", "--quiet", "--python", sys.executable, str(folder))

    def install(self, *wheels: Path) -> None:
        """Install wheels and what they need: ours from beside them, PySpark from where it is
        kept, the rest from the index."""
        requirements = [requirement(one) for one in (*wheels, pyspark())]
        beside = ("--find-links", str(wheels[0].resolve().parent))
        uv("pip", "install", "--quiet", "--python", str(self.python), *beside, *requirements)

    def run(self, *command: str, within: float = 180, code: int = 0) -> str:
        """Run a program of this environment far from the source tree; what it printed.

        It must end with `code`.
        """
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYSPARK"))}
        clean |= {
            "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}",
            "PYSPARK_PYTHON": str(self.python),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        clean.pop("VIRTUAL_ENV", None)
        program = [str(self.python.parent / command[0]), *command[1:]]
        done = subprocess.run(
            program, cwd=self.folder, env=clean, capture_output=True, text=True, timeout=within
        )
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def connectors(self) -> dict[str, dict]:
        """What `penstock connectors` lists, by name."""
        return {
            entry["name"]: entry
            for entry in json.loads(self.run("penstock", "connectors", "--json"))
        }

    def spark(self, script: str) -> dict:
        """Run a script over a `spark` session; it leaves its findings in `found`."""
        return json.loads(self.run("python", "-c", SESSION + script + REPORT).splitlines()[-1])


SESSION = """
import json
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.log.level", "OFF").getOrCreate()
)
found = {}
"""
REPORT = """
print()
print(json.dumps(found), flush=True)
spark.stop()
"""


def make_wheel(folder: Path, name: str, files: dict[str, str], entry_points: str) -> Path:
    """A wheel made by hand, such as no sane build would make."""
    stem = f"{name.replace('-', '_')}-0.1.0"
    info = f"{stem}.dist-info"
    files = files | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": entry_points,
    }
    record = "".join(
        f"{path},sha256={_digest(text)},{len(text.encode())}\n" for path, text in files.items()
    )
    wheel = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record + f"{info}/RECORD,,\n"}.items():
            archive.writestr(path, text)
    return wheel


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
