"""Of a twin only the clause it breaks is run, and only those that were asked for."""

import os
from pathlib import Path

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config, items):
    wanted = set(filter(None, os.environ.get("PENSTOCK_TWINS", "").split(",")))
    kept, left = [], []
    for item in items:
        if HERE not in item.path.parents:
            # A run over all folders asks this file too.
            kept.append(item)
            continue
        clause = getattr(item.function, "__clause__", None)
        breaks = getattr(item.cls, "breaks", None)
        mine = clause is not None and clause.id == breaks and (not wanted or breaks in wanted)
        (kept if mine else left).append(item)
    items[:] = kept
    if left:
        config.hook.pytest_deselected(items=left)
