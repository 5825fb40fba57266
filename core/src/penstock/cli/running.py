"""`penstock run`: a pipeline until its end, or until it is told to stop."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from penstock.cli.app import json_option
from penstock.cli.live import View
from penstock.cli.output import emit_json


@click.command()
@click.argument("file", type=click.Path())
@click.option("--checkpoint", help="Folder that remembers how far it is; needed if unbounded.")
@click.option("--state", help="Penstock's own folder, if the checkpoint is no shared filesystem.")
@click.option("--master", help="Spark's master, for instance local[4]; else as spark-submit says.")
@click.option("--quiet", is_flag=True, help="No progress, only errors.")
@json_option
def run(
    file: str,
    checkpoint: str | None,
    state: str | None,
    master: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run a pipeline FILE; Ctrl-C or SIGTERM finishes the batch at work and stops."""
    from penstock.pipeline.analyse import analyse
    from penstock.pipeline.document import graph_of

    graph = graph_of(Path(file))
    analyse(graph)  # what fails without Spark must fail before Spark is started
    with View(graph.name, quiet=quiet or as_json) as view:
        from penstock.spark.running import run as start
        from penstock.spark.session import session
        from penstock.spark.signals import asked_to_stop

        view.say("starting Spark")
        spark = session(master=master, name=graph.name)
        handle = start(graph, checkpoint, state=state, spark=spark, wait=False, progress=view.say)
        with asked_to_stop() as asked:
            while not handle.wait(0.2):
                view.show(handle.progress())
                if asked:
                    view.say("finishing the batch at work")
                    handle.stop(within=None)
        progress: dict[str, Any] = handle.progress()
        view.show(progress, last=True)
    if as_json:
        emit_json(progress)
    sys.stdout.flush()
