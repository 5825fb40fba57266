"""Build a wheel of core and of every folder under plugins/, and install them for the tests.

    python -m tests.packaging.wheels build [FOLDER]
    python -m tests.packaging.wheels install [--spark 4.3] [PYTHON]
    python -m tests.packaging.wheels develop [--spark 4.3] [PYTHON]

A project is built again only when its files have changed. `install` takes the wheels with all
their extras, never the source tree; `develop` links the source tree instead. Needs nothing but the
standard library and uv.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

from tests.cache import alone, cache

ROOT = Path(__file__).resolve().parents[2]
WHEELS = Path(os.environ.get("PENSTOCK_WHEELS") or ROOT / ".tox" / "wheels")
NEWEST = "4.3"
UNPACKED = {"tests", "__pycache__", ".pytest_cache", ".mypy_cache", "dist", "build"}


def projects() -> list[Path]:
    """Core and every plugin, found by looking."""
    plugins = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
    return [ROOT / "core", *plugins]


def build(folder: Path = WHEELS) -> list[Path]:
    """The wheels of all projects, up to date; core's first."""
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder):
        record = folder / "built.json"
        before = json.loads(record.read_text()) if record.exists() else {}
        built = {}
        for project in projects():
            name, digest = project.relative_to(ROOT).as_posix(), _digest(project)
            known = before.get(name)
            if not known or known["digest"] != digest or not (folder / known["wheel"]).exists():
                known = {"digest": digest, "wheel": _build(project, folder).name}
            built[name] = known
        record.write_text(json.dumps(built, indent=1))
        wheels = [folder / entry["wheel"] for entry in built.values()]
        for stale in set(folder.glob("*.whl")) - set(wheels):
            stale.unlink()
    return wheels


def pyspark(minor: str = NEWEST) -> Path:
    """PySpark's wheel; it is published as 400 MB of source only, so it is built once and kept."""
    folder = cache("wheels") / f"pyspark-{minor}"
    with alone(folder):
        if not folder.exists():
            arriving = folder.with_name(f"arriving-{folder.name}")
            wanted = f"pyspark=={minor}.*"
            pip = [
                "tool",
                "run",
                "--quiet",
                "--from",
                "pip",
                "pip",
                "--quiet",
                "wheel",
                "--no-deps",
            ]
            uv(*pip, "--wheel-dir", str(arriving), wanted)
            arriving.rename(folder)
    [wheel] = folder.glob("*.whl")
    return wheel


def install(python: str, spark: str) -> None:
    """Put the wheels with all their extras into an environment."""
    wheels = build()
    requirements = [requirement(wheel, _extras(wheel)) for wheel in wheels]
    requirements.append(requirement(pyspark(spark)))
    again = [word for one in wheels for word in ("--reinstall-package", metadata(one)["Name"])]
    uv("pip", "install", "--quiet", "--python", python, *again, *requirements)


def develop(python: str, spark: str) -> None:
    """Link the source trees, with all their extras, into an environment."""
    linked = []
    for project in projects():
        declared = tomllib.loads((project / "pyproject.toml").read_text())["project"]
        extras = ",".join(declared.get("optional-dependencies", {}))
        linked += ["--editable", f"{project}[{extras}]" if extras else str(project)]
    uv("pip", "install", "--quiet", "--python", python, *linked, str(pyspark(spark)))


def requirement(wheel: Path, extras: str = "") -> str:
    """A wheel's name with the place it is at, as installers take it."""
    return f"{metadata(wheel)['Name']}{extras} @ {wheel.resolve().as_uri()}"


def metadata(wheel: Path) -> dict[str, str]:
    """A wheel's METADATA; fields that repeat are joined by newlines."""
    with zipfile.ZipFile(wheel) as archive:
        [path] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        parsed = Parser().parsestr(archive.read(path).decode())
    return {key: "\n".join(parsed.get_all(key)) for key in parsed}


def uv(*arguments: str) -> str:
    """Run uv; what it printed, or an end of this program with all it said."""
    command = [shutil.which("uv", path=os.path.dirname(sys.executable)) or "uv", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def _build(project: Path, folder: Path) -> Path:
    arriving = folder / f".building-{project.name}"
    shutil.rmtree(arriving, ignore_errors=True)
    uv("build", "--quiet", "--wheel", "--out-dir", str(arriving), str(project))
    [wheel] = arriving.glob("*.whl")
    target = folder / wheel.name
    wheel.replace(target)
    shutil.rmtree(arriving)
    return target


def _digest(project: Path) -> str:
    digest = hashlib.sha256()
    for folder, inner, files in os.walk(project):
        inner[:] = sorted(set(inner) - UNPACKED)
        for name in sorted(files):
            path = Path(folder, name)
            digest.update(path.relative_to(project).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _extras(wheel: Path) -> str:
    extras = re.findall(r"\S+", metadata(wheel).get("Provides-Extra", ""))
    return f"[{','.join(extras)}]" if extras else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, dest="command")
    builder = commands.add_parser("build")
    builder.add_argument("folder", nargs="?", type=Path, default=WHEELS)
    for name in ("install", "develop"):
        installer = commands.add_parser(name)
        installer.add_argument("python", nargs="?", default=sys.executable)
        installer.add_argument("--spark", default=NEWEST, help=f"a minor version, {NEWEST} if none")
    asked = parser.parse_args()
    if asked.command == "build":
        print(*build(asked.folder), sep="\n")
    elif asked.command == "install":
        install(asked.python, asked.spark)
    else:
        develop(asked.python, asked.spark)


if __name__ == "__main__":
    main()
