"""Puts tables from the code into the pages, and the pages into the navigation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]

SECTIONS = [
    ("Start", ["index.md", "start.md"]),
    ("Concepts", "concepts"),
    ("Connectors", "connectors"),
    ("Coders", "coders"),
    ("Recipes", "recipes"),
    ("Operating", "operate"),
    ("Write a connector", "write"),
    ("More", ["alternatives.md", "dependencies.md", "troubleshooting.md"]),
]
FIRST = ["index", "contracts", "tutorial"]
_MARK = re.compile(r"^<!-- (options|installed|capabilities|clauses)(?:: ([^>]*?))? -->$", re.M)

_IDLE = re.compile(r'^(```\w+) no-run="[^"\n]*"$', re.M)
"""What only the tests must know: Markdown takes a fence with such a word for plain text."""


def on_config(config: Any) -> Any:
    """Build the navigation from the folders: adding a page touches nothing else."""
    config["nav"] = [{title: _pages(where)} for title, where in SECTIONS if _pages(where)]
    return config


def _pages(where: str | list[str]) -> list[str]:
    if isinstance(where, list):
        return [name for name in where if (DOCS / name).exists()]
    order = {name: at for at, name in enumerate(FIRST)}
    files = sorted((DOCS / where).glob("*.md"), key=lambda f: (order.get(f.stem, 99), f.stem))
    return [f"{where}/{file.name}" for file in files]


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill in the tables."""
    return filled(_IDLE.sub(r"\1", markdown), page.file.src_uri)


def filled(markdown: str, where: str) -> str:
    """The page with each table comment replaced by its table."""

    def table(match: re.Match[str]) -> str:
        kind, words = match[1], (match[2] or "").split()
        try:
            if kind == "installed":
                return installed(*words, where=where)
            return _TABLES[kind](*words)
        except Exception as error:
            raise SystemExit(f"{where}: {match[0]}: {type(error).__name__}: {error}") from error

    return _MARK.sub(table, markdown)


def options(kind: str, name: str, side: str = "") -> str:
    from penstock import registry
    from penstock.contracts import delivery
    from penstock.contracts.options import table

    if kind == "delivery":
        cls: Any = getattr(delivery, name)
    elif kind == "steps":
        from penstock.pipeline.steps.catalog import STEPS

        cls = STEPS[name]
    elif kind == "ends":
        from penstock.pipeline.ends import SINKS, SOURCES

        cls = (SINKS if side == "sink" else SOURCES)[name]
    elif kind == "connectors":
        cls = getattr(registry.connector(name), side or "source")
    else:
        cls = registry.coder(name) if kind == "coders" else registry.transform(name)
    if cls is None:
        raise LookupError(f"{name} has no {side}")
    rows = table(cls)
    if not rows:
        return "*No options of its own.*"
    lines = ["| option | type | default | |", "|---|---|---|---|"]
    for row in rows:
        default = "" if row["default"] == "" else f"`{row['default']}`"
        if row["default"] == "required":
            default = "**required**"
        lines.append(
            f"| `{row['name']}` | {_cell(row['type'])} | {default} | {_cell(row['doc'])} |"
        )
    return "\n".join(lines)


def installed(kind: str, where: str) -> str:
    from penstock import registry

    lines = ["| name | distribution | what it can do | |", "|---|---|---|---|"]
    for listed in registry.listing(kind):  # type: ignore[arg-type]
        if listed.broken is not None:
            raise LookupError(listed.broken)
        name, found = listed.entry.name, listed.found
        page = f"{name}.md" if where.startswith(f"{kind}/") else f"{kind}/{name}.md"
        link = f"[{name}]({page})" if (DOCS / kind / f"{name}.md").exists() else f"`{name}`"
        can = ", ".join(found.can()) if kind == "connectors" else ""
        says = found.summary if kind == "connectors" else (found.__doc__ or "").splitlines()[0]
        lines.append(f"| {link} | `{listed.entry.distribution}` | {can} | {_cell(says)} |")
    return "\n".join(lines)


def capabilities() -> str:
    from penstock.contracts import CAPABILITIES

    rows = [f"| `{name}` | {_cell(text)} |" for name, text in CAPABILITIES.items()]
    return "\n".join(["| capability | what it says |", "|---|---|", *rows])


TITLES = {
    "OPT": "Options",
    "SHP": "Shape",
    "SRC": "Replayable sources",
    "QUE": "Queues",
    "SNK": "Sinks",
    "ERR": "Errors",
    "COD": "Coders",
    "TRF": "Transforms",
}


def clauses() -> str:
    from penstock.conformance import catalogue

    lines: list[str] = []
    section = ""
    for each in catalogue():
        if each.id[:3] != section:
            section = each.id[:3]
            lines += [f"## {TITLES[section]}", ""]
        needs = f" *Where `{each.needs}` is declared.*" if each.needs else ""
        lines += [
            f"### {each.id}: {each.title} {{ #{each.id.lower()} }}",
            "",
            each.text + needs,
            "",
        ]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


_TABLES: dict[str, Any] = {
    "options": options,
    "capabilities": capabilities,
    "clauses": clauses,
}
