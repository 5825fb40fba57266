"""Every example in the documentation runs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "sdk-docs"
README = ROOT / "README.md"
PAGES = [*sorted(path for path in DOCS.rglob("*.md") if "_site" not in path.parts), README]
RUNNER = Path(__file__).with_name("running.py")
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.M | re.S)
SERVER = re.compile(r"^<!-- server: ([\w.]+) (\S+) -->$", re.M)

pytestmark = pytest.mark.spark


def blocks(page, language):
    """The fenced blocks of a page: line, whether to run it, text."""
    text = page.read_text()
    return [
        (text.count("\n", 0, match.start()) + 2, "no-run" not in match[2], match[3])
        for match in FENCE.finditer(text)
        if match[1] == language
    ]


def name(page):
    return str(page.relative_to(ROOT))


def with_python(page):
    return bool(blocks(page, "python"))


def places(page, request):
    """What stands in place of the addresses that a page has written."""
    made = {}
    for server, written in SERVER.findall(page.read_text()):
        fixture, _, named = server.partition(".")
        found = getattr(request.getfixturevalue(fixture), named or "address")
        made[written] = ",".join(map(str, found)) if isinstance(found, list) else str(found)
    return made


@pytest.fixture(scope="module")
def ran(tmp_path_factory, request):
    """What became of each page, from one process whose folder is the examples' own.

    Spark's Python processes live in the folder where Spark was started: examples with relative
    paths need a Spark of their own, and all pages share it.
    """
    wanted = {
        item.callspec.params["page"]
        for item in request.session.items
        if getattr(item, "function", None) is test_the_python_of_a_page_runs
    }
    pages = {}
    for page in sorted(wanted):
        try:
            pages[name(page)] = (places(page, request), blocks(page, "python"))
        except pytest.skip.Exception:
            continue  # its own test says so
    work = {"pages": pages}
    folder = tmp_path_factory.mktemp("examples")
    plan, report = folder / "work.json", folder / "report.json"
    plan.write_text(json.dumps(work))
    (folder / "here").mkdir()
    done = subprocess.run(
        [sys.executable, str(RUNNER), str(plan), str(report)],
        cwd=folder / "here",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=800,
    )
    assert report.exists(), done.stdout[-4000:]
    return json.loads(report.read_text())


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", [p for p in PAGES if with_python(p)], ids=name)
def test_the_python_of_a_page_runs(page, ran):
    if name(page) not in ran:
        pytest.skip("the server it needs is not on this machine")
    error = ran[name(page)]
    assert error is None, error


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "yaml")], ids=name)
def test_the_yaml_of_a_page_is_a_pipeline(page, monkeypatch):
    import penstock as pen

    for variable in re.findall(r"\$\{env:(\w+)\}", page.read_text()):
        monkeypatch.setenv(
            variable, "amqps://user:word@example.org/" if "URL" in variable else "word"
        )
    for line, run, text in blocks(page, "yaml"):
        found = yaml.safe_load(text)
        assert found, f"{page.name}:{line} is empty"
        if run and isinstance(found, dict) and {"source", "nodes"} & set(found):
            pen.from_yaml(text).analyse()


def test_there_is_something_to_run():
    assert sum(len(blocks(page, "python")) for page in PAGES) > 10


def test_what_does_not_run_says_why():
    idle = [(page.name, match[2]) for page in PAGES for match in FENCE.finditer(page.read_text())]
    idle = [(page, info) for page, info in idle if "no-run" in info]
    assert [(page, info) for page, info in idle if not re.search(r'no-run="[^"]+"', info)] == []


def test_every_file_begins_with_its_title():
    wrong = [name(p) for p in PAGES if not p.read_text().startswith("# ")]
    assert wrong == []


def test_llms_txt_links_to_what_exists():
    links = re.findall(r"\]\(([^)]+)\)", (DOCS / "llms.txt").read_text())
    missing = [
        link
        for link in links
        if not (DOCS / f"{link.rstrip('/')}.md").exists()
        and not (DOCS / link / "index.md").exists()
    ]
    assert missing == []


@pytest.mark.parametrize("kind", ["connectors", "coders"])
def test_everything_we_ship_is_documented(kind):
    from penstock import registry

    ours = {"penstock"} | {
        f"penstock-{path.parent.name}" for path in DOCS.parent.glob("plugins/*/pyproject.toml")
    }
    names = [n for n in registry.names(kind) if registry.entry(kind, n).distribution in ours]
    names = [n for n in names if n != "xml-node"]  # lives within a chain; on the page of xml
    assert [name for name in names if not (DOCS / kind / f"{name}.md").exists()] == []
