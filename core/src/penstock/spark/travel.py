"""How a user's functions reach the workers.

Functions of the main script travel by value anyway. Those of a module travel by its name, which is
right where workers can import it; where they cannot, because it lies beside a script that was
started from elsewhere or on the driver's disk only, the module travels by value too.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import attrs
from pyspark import cloudpickle

from penstock.pipeline.functions import Function
from penstock.pipeline.plan import Plan


def let_travel(plan: Plan, *, local: bool) -> list[str]:
    """See that every function of a plan reaches the workers; the modules that go by value.

    Args:
        plan: The pipeline.
        local: Whether workers run on this machine, in this folder.
    """
    reachable = places(local=local)
    sent = []
    for root in sorted({root for f in _functions(plan) if (root := _root(f, reachable))}):
        for module in _modules_in(root):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
            sent.append(module.__name__)
    return sorted(sent)


def places(*, local: bool) -> set[Path]:
    """The folders from which a worker can import."""
    found = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    if local:
        found |= {os.getcwd(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    return {Path(each).resolve() for each in found if each}


def _functions(plan: Plan) -> Iterator[Function]:
    for stage in plan:
        if attrs.has(type(stage.work)):
            for field in attrs.fields(type(stage.work)):
                value = getattr(stage.work, field.name)
                if isinstance(value, Function):
                    yield value


def _root(function: Function, reachable: Iterable[Path]) -> Path | None:
    """The folder that a function's module was imported from, if no worker can import from it."""
    module = sys.modules.get(getattr(function.load(), "__module__", None) or "")
    root = _folder(module) if module is not None else None
    return None if root is None or root in set(reachable) or _installed(root) else root


def _folder(module: ModuleType) -> Path | None:
    """The folder on the path that a module was found in."""
    file = getattr(module, "__file__", None)
    if file is None or module.__name__ == "__main__":
        return None
    depth = module.__name__.count(".") + (Path(file).name == "__init__.py")
    above = Path(file).resolve().parents
    return above[depth] if depth < len(above) else None


def _installed(root: Path) -> bool:
    """Whether a distribution put this folder on the path: a .pth file, as editable installs do."""
    site = Path(sysconfig.get_path("purelib"))
    files = [file.read_text(errors="replace").splitlines() for file in site.glob("*.pth")]
    return any(str(root) in lines for lines in files)


def _modules_in(root: Path) -> list[ModuleType]:
    """The loaded modules found in a folder, since those of one project use each other."""
    return [module for module in list(sys.modules.values()) if _folder(module) == root]
