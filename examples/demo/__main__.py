"""`tox run -e demo`: a real pipeline on an embedded Spark, over the files beside this one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PIPELINE = HERE / "orders.yaml"


def main() -> int:
    out = Path(os.environ.get("DEMO_OUT") or "demo-output").resolve()
    shutil.rmtree(out, ignore_errors=True)
    os.environ |= {"DEMO_IN": str(HERE / "orders"), "DEMO_OUT": str(out)}
    print(f"penstock run {PIPELINE}\n{PIPELINE.read_text()}", flush=True)
    command = [
        sys.executable,
        "-m",
        "penstock",
        "run",
        str(PIPELINE),
        "--checkpoint",
        f"{out}/.checkpoint",
    ]
    if code := subprocess.run(command).returncode:
        return code
    written = sorted(path for path in out.iterdir() if path.is_file() and path.name[0] not in "._")
    lines = [line for path in written for line in path.read_text().splitlines()]
    print(f"\n{len(lines)} orders are in {len(written)} file(s) under {out}, the first of them:")
    print(*lines[:3], sep="\n")
    print("Run it again by hand: penstock explain examples/demo/orders.yaml shows its plan.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
