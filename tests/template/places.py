"""Where the template and what it is made from lie."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "cookiecutter-connector"
PACKAGE = TEMPLATE / "{{cookiecutter.__distribution}}" / "src" / "{{cookiecutter.__package}}"
REFERENCE = ROOT / "core" / "src" / "penstock" / "conformance" / "reference"
