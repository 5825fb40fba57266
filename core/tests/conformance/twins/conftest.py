"""Of a twin only the clause it breaks is run."""


def pytest_collection_modifyitems(config, items):
    kept, left = [], []
    for item in items:
        breaks = getattr(item.cls, "breaks", None)
        clause = getattr(item.function, "__clause__", None)
        (kept if breaks is None or (clause and clause.id == breaks) else left).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)
