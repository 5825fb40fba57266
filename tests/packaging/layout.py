"""Every plugin folder looks the same: what is wrong with one, in sentences."""

import ast
import tomllib
from pathlib import Path

GROUP = "penstock.connectors"
SUITES = "penstock.conformance"


def faults(folder: Path) -> list[str]:
    """What is wrong with a plugin folder; empty if nothing."""
    name = folder.name
    wanted = ["pyproject.toml", "README.md", "LICENSE", f"src/penstock_{name}/__init__.py", "tests"]
    wrong = [f"{name}: {path} is missing" for path in wanted if not (folder / path).exists()]
    if not any((folder / "tests").rglob("test_*.py")):
        wrong.append(f"{name}: tests/ has no tests")
    if (folder / "pyproject.toml").exists():
        wrong += _project_faults(folder, tomllib.loads((folder / "pyproject.toml").read_text()))
    return wrong


def connectors(folder: Path) -> list[str]:
    """The connectors that a folder's distribution brings."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return sorted(project.get("entry-points", {}).get(GROUP, {}))


def _project_faults(folder: Path, declared: dict) -> list[str]:
    name, project = folder.name, declared["project"]
    wrong = []
    if project["name"] != f"penstock-{name}":
        wrong.append(f"{name}: the distribution is named {project['name']}, not penstock-{name}")
    if not any(_is_core(need) for need in project.get("dependencies", [])):
        wrong.append(f"{name}: it does not depend on penstock")
    for field in ("description", "license", "requires-python", "readme"):
        if not project.get(field):
            wrong.append(f"{name}: project.{field} is missing")
    if not (entries := connectors(folder)):
        wrong.append(f"{name}: no entry point in the group {GROUP}")
    for connector in entries:
        module = folder / "src" / f"pyspark_penstock_{connector.replace('-', '_')}.py"
        if not module.exists():
            wrong.append(f"{name}: src/{module.name} is missing, Spark will not find {connector}")
        elif len(module.read_text().splitlines()) > 8:
            wrong.append(
                f"{name}: src/{module.name} must only bind, it is imported by all of Spark"
            )
        module = project["entry-points"].get(SUITES, {}).get(connector, "")
        suite = folder / "src" / f"{module.replace('.', '/')}.py"
        if not module or not suite.exists():
            wrong.append(f"{name}: no suite of {connector} in the group {SUITES}")
    return wrong + _suite_faults(folder)


def _suite_faults(folder: Path) -> list[str]:
    """The suite comes from the wheel; the test only gives it a server."""
    test = folder / "tests" / "test_conformance.py"
    text = test.read_text() if test.exists() else ""
    lines = len(text.splitlines())
    if not 0 < lines < 10:
        return [f"{folder.name}: tests/test_conformance.py has {lines} lines, not one to nine"]
    own = folder / "src" / f"penstock_{folder.name}" / "conformance.py"
    suites = set(_suites(own)) if own.exists() else set()
    left = sorted(suites - _imported(text, f"penstock_{folder.name}.conformance"))
    return [f"{folder.name}: tests/test_conformance.py does not run {each}" for each in left]


def _suites(file: Path) -> list[str]:
    """The suites of a module, by its text: pytest collects them by their names."""
    found = [each for each in ast.parse(file.read_text()).body if isinstance(each, ast.ClassDef)]
    return [
        each.name
        for each in found
        if any(ast.unparse(base).rpartition(".")[2] == "ConnectorSuite" for base in each.bases)
    ]


def _imported(text: str, module: str) -> set[str]:
    """What a test file takes from a module under its own name."""
    return {
        name.name
        for line in ast.parse(text).body
        if isinstance(line, ast.ImportFrom) and line.module == module
        for name in line.names
        if name.asname in (None, name.name)
    }


def _is_core(requirement: str) -> bool:
    rest = requirement.removeprefix("penstock")
    return rest != requirement and (not rest or rest[0] in "[>=<~! ")
