"""`penstock doctor`: is this machine fit, are the plugins, do the servers answer?"""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click
from attrs import asdict, frozen

from penstock import registry
from penstock.cli.app import json_option
from penstock.cli.output import emit_json
from penstock.contracts.errors import PenstockError, SetupError
from penstock.contracts.plugin import Connector


@frozen
class Finding:
    """One thing that was looked at."""

    what: str
    ok: bool
    found: str
    fix: str | None = None
    exit_code: int = 3


@click.command()
@click.argument("file", required=False, type=click.Path())
@json_option
def doctor(file: str | None, as_json: bool) -> None:
    """Check Python, Java, Spark and plugins; given a pipeline FILE, its servers too."""
    findings = [_python(), _java(), _spark(), *_plugins()]
    if file is not None:
        findings += _ends(file)
    if as_json:
        emit_json([asdict(each) for each in findings])
    else:
        for each in findings:
            mark = click.style("ok  ", fg="green") if each.ok else click.style("bad ", fg="red")
            click.echo(f"{mark} {each.what}: {each.found}")
            if not each.ok and each.fix:
                click.echo(f"     fix: {each.fix}")
    bad = [each for each in findings if not each.ok]
    if bad:
        sys.exit(min(each.exit_code for each in bad))


def _python() -> Finding:
    ok = sys.version_info >= (3, 11)
    return Finding("Python", ok, platform.python_version(), "install Python 3.11 or newer")


def _java() -> Finding:
    from penstock.spark.java import JAVA_NEEDED, java_version, require_java

    try:
        require_java()
    except SetupError as error:
        return Finding("Java", False, error.message, error.fix)
    return Finding("Java", True, f"{java_version()} (needs {JAVA_NEEDED})")


def _spark() -> Finding:
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        return Finding("Spark", False, "pyspark is not installed", "pip install 'pyspark>=4.2'")
    numbers = tuple(int(part) for part in found.split(".")[:2])
    return Finding("Spark", numbers >= (4, 2), f"pyspark {found}", "pip install 'pyspark>=4.2'")


def _plugins() -> list[Finding]:
    findings = []
    for kind in ("connectors", "coders", "transforms", "hooks"):
        for listed in registry.listing(kind):
            what = f"{kind[:-1]} {listed.entry.name}"
            shown = f"{listed.entry.distribution} {listed.entry.version}"
            broken = listed.broken or _broken_inside(listed.found)
            if broken is None:
                findings.append(Finding(what, True, shown))
            else:
                fix = f"upgrade or uninstall {listed.entry.distribution}"
                findings.append(Finding(what, False, broken, fix))
    return findings


def _broken_inside(found: Any) -> str | None:
    """A listing leaves a connector's classes unimported; here they are asked for."""
    try:
        if isinstance(found, Connector):
            found.source, found.sink  # noqa: B018
    except PenstockError as error:
        return str(error)
    return None


def _ends(file: str) -> list[Finding]:
    from penstock.cli.pipelines import analysed

    try:
        plan = analysed(file)
    except PenstockError as error:
        return [Finding(file, False, str(error), error.fix, error.exit_code)]
    findings = [Finding(file, True, f"pipeline {plan.graph.name}")]
    for stage in plan:
        if stage.kind not in ("source", "sink"):
            continue
        what = f"{stage.kind} {stage.name}"
        try:
            stage.work.check()
            findings.append(Finding(what, True, f"{stage.what} answers"))
        except PenstockError as error:
            findings.append(Finding(what, False, str(error), error.fix, 4))
        except OSError as error:
            findings.append(Finding(what, False, f"{type(error).__name__}: {error}", None, 4))
    return findings
