"""`penstock dlq`: dead letters listed, shown, and sent through their pipeline again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.app import json_option
from penstock.cli.output import emit_json, emit_table

if TYPE_CHECKING:
    from penstock.spark.deadletters import DeadLetters


def _letters(checkpoint: str, state: str | None) -> DeadLetters:
    """The letters of a checkpoint.

    Raises:
        DeclareError: the folder is no pipeline's checkpoint, so that "none wait" would mislead.
    """
    from penstock.contracts.errors import DeclareError
    from penstock.spark.checkpoint import Checkpoint
    from penstock.spark.deadletters import DeadLetters

    place = Checkpoint(checkpoint, state)
    if not (place.state / "pipeline.json").exists():
        raise DeclareError(
            f"{state or checkpoint} is no checkpoint of a pipeline",
            expected=f"a file {place.state / 'pipeline.json'}",
            got="none",
            fix="give the folder that the pipeline was run with: --checkpoint, and --state if "
            "it had one",
        )
    return DeadLetters(place.dead_letters)


@click.group()
def dlq() -> None:
    """Dead letters: records that failed, kept with their cause."""


_CHECKPOINT = click.option("--checkpoint", required=True, help="The pipeline's checkpoint.")
_STATE = click.option("--state", help="Its state folder, if it has one of its own.")
_NO_BYTES = (
    "none: the source gives columns, or a large record became many before a step that Spark runs, "
    "or an apply step made _pen anew; a replay needs only the input"
)


@dlq.command("list")
@_CHECKPOINT
@_STATE
@click.option("--node", help="Only those that failed at this node.")
@json_option
def list_letters(checkpoint: str, state: str | None, node: str | None, as_json: bool) -> None:
    """List the dead letters that wait."""
    import pyarrow.compute as pc

    table = _letters(checkpoint, state).table()
    if node is not None:
        table = table.filter(pc.equal(table["node"], node))
    rows = table.select(["letter", "batch", "node", "kind", "message", "id"]).to_pylist()
    if as_json:
        emit_json(rows)
        return
    if not rows:
        click.echo("no dead letters wait")
        return
    cells = [
        [r["letter"], str(r["batch"]), r["node"] or "", r["kind"] or "", r["message"] or ""]
        for r in rows
    ]
    emit_table(["letter", "batch", "node", "error", "message"], cells)


@dlq.command()
@_CHECKPOINT
@_STATE
@click.argument("letter")
@json_option
def show(checkpoint: str, state: str | None, letter: str, as_json: bool) -> None:
    """Show one dead LETTER in full: its bytes, its stamp, its traceback, what its node got."""
    from penstock.connectors.stdout import _jsonable
    from penstock.pipeline.work import read_row

    found = _letters(checkpoint, state).show(letter)
    if as_json:
        emit_json({k: _jsonable(v) if isinstance(v, bytes) else v for k, v in found.items()})
        return
    if found["original"] is None:
        found["original"] = _NO_BYTES
    if found["input"] is not None:
        [got] = read_row(found["input"]).to_pylist()
        own = {name: value for name, value in got.items() if name not in ("_pen", "event_time")}
        found["input"] = json.dumps(own, default=_jsonable, ensure_ascii=False)
    for name, value in found.items():
        if value is not None:
            click.echo(f"{name}: {_jsonable(value) if isinstance(value, bytes) else value}")


@dlq.command()
@_CHECKPOINT
@_STATE
@click.argument("file", type=click.Path())
@click.option("--node", help="Only those that failed at this node.")
@json_option
def replay(checkpoint: str, state: str | None, file: str, node: str | None, as_json: bool) -> None:
    """Send the dead letters through the pipeline FILE again, from the node where each failed."""
    from penstock.pipeline.document import graph_of
    from penstock.spark.replay import replay as again

    _letters(checkpoint, state)
    done = again(graph_of(Path(file)), checkpoint, state=state, node=node)
    if as_json:
        emit_json(done)
        return
    click.echo(f"{done['replayed']} replayed, {done['failed']} failed again")
