"""`python -m tests.benchmarks NAME [ROW ...]`."""

import importlib
import sys
from pathlib import Path

from penstock.contracts.errors import did_you_mean


def main() -> int:
    files = Path(__file__).parent.glob("[a-z]*.py")
    known = sorted(file.stem for file in files if "\ndef main(wanted: list" in file.read_text())
    if len(sys.argv) < 2 or sys.argv[1] not in known:
        wanted = sys.argv[1] if len(sys.argv) > 1 else ""
        hint = did_you_mean(wanted, known) or ""
        print(f"name a benchmark: {', '.join(known)}. {hint}", file=sys.stderr)
        return 2
    importlib.import_module(f"tests.benchmarks.{sys.argv[1]}").main(sys.argv[2:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
