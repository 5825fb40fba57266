"""The command `penstock`.

Exit codes: 0 done, 2 bad configuration, 3 bad environment, 4 a pipeline that failed.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import click

from penstock.cli.output import emit_error
from penstock.contracts.errors import PenstockError

_COMMANDS = {
    "connectors": "penstock.cli.installed:connectors",
    "coders": "penstock.cli.installed:coders",
    "transforms": "penstock.cli.installed:transforms",
    "doctor": "penstock.cli.doctor:doctor",
    "validate": "penstock.cli.pipelines:validate",
    "explain": "penstock.cli.pipelines:explain",
    "schema": "penstock.cli.pipelines:schema",
    "run": "penstock.cli.running:run",
    "dlq": "penstock.cli.dlq:dlq",
    "conformance": "penstock.cli.conformance:conformance",
    "new": "penstock.cli.new:new",
}


class Commands(click.Group):
    """Commands that are imported only when they are called: listing must stay quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order a user meets them."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import one."""
        if name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[name].partition(":")
        found: click.Command = getattr(importlib.import_module(module), attribute)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """With a suggestion for a mistyped command."""
        from penstock.contracts.errors import did_you_mean

        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = did_you_mean(args[0], _COMMANDS)
            if hint is None:
                raise
            message = f"{error.message} {hint[0].upper()}{hint[1:]}"
            raise click.UsageError(message, ctx) from None


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--json`, and turns a PenstockError into a message and an exit code."""

    @click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
    @functools.wraps(command)
    def wrapped(*args: Any, as_json: bool, **kwargs: Any) -> Any:
        try:
            return command(*args, as_json=as_json, **kwargs)
        except PenstockError as error:
            emit_error(error, as_json)
            sys.exit(error.exit_code)

    return wrapped


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="penstock", prog_name="penstock")
def main() -> None:
    """Carry records to Spark and away from it."""
    # Pipelines name functions of modules beside them; what is installed comes first.
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.append(os.getcwd())
