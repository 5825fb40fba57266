"""Keeps what the chosen shape needs, and nothing else."""

from pathlib import Path

SHAPE = "{{ cookiecutter.shape }}"
PACKAGE = Path("src") / "{{ cookiecutter.__package }}"

NEEDED = {
    "source": ["connector.py", "segments.py", "source.py"],
    "queue": ["broker.py", "client.py", "connector.py", "queue.py"],
    "sink": ["connector.py", "segments.py", "sink.py"],
    "source-and-sink": ["connector.py", "segments.py", "sink.py", "source.py"],
    "coder": ["coder.py"],
    "transform": ["transform.py"],
}
ALWAYS = {"__init__.py", "conformance.py", "py.typed", "testing.py"}

for file in PACKAGE.iterdir():
    if file.name not in ALWAYS | set(NEEDED[SHAPE]):
        file.unlink()
if SHAPE in ("coder", "transform"):
    Path("src", "pyspark_penstock_{{ cookiecutter.__module }}.py").unlink()
if "{{ cookiecutter.licence }}" == "Proprietary":
    Path("LICENSE").write_text("All rights reserved.\n")
