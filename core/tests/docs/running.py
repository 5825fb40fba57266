"""Runs the examples of all pages, one page after the other, in the folder it was started in."""

import json
import os
import shutil
import sys
import traceback
import warnings
from pathlib import Path

SPARKS_OWN = {"artifacts", "derby.log", "metastore_db", "spark-warehouse"}


def main(plan: Path, report: Path) -> None:
    work = json.loads(plan.read_text())
    here, path = Path.cwd(), list(sys.path)
    found = {}
    for page, (places, blocks) in work["pages"].items():
        for left in here.iterdir():
            if left.name not in SPARKS_OWN:
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        before = set(sys.modules)
        found[page] = run(page, blocks, places)
        os.chdir(here)
        sys.path[:] = path
        for name in set(sys.modules) - before:
            if str(here) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
        report.write_text(json.dumps({**dict.fromkeys(work["pages"], "not reached"), **found}))


def run(page: str, blocks: list, places: dict[str, str]) -> str | None:
    """What went wrong on a page, or None."""
    namespace = {"__name__": "__example__"}
    try:
        for line, wanted, code in blocks:
            for written, address in places.items():
                code = code.replace(written, address)
            compiled = compile("\n" * (line - 1) + code, page, "exec")
            if wanted:
                exec(compiled, namespace)
    except BaseException:
        return traceback.format_exc()
    finally:
        stop_streams()
    return None


def stop_streams() -> None:
    """What a page left running must not disturb the next one."""
    if "pyspark" not in sys.modules:
        return
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    for query in spark.streams.active if spark is not None else []:
        query.stop()


if __name__ == "__main__":
    warnings.simplefilter("default")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
