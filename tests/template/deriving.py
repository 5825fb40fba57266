"""The template's Python is the reference connectors, renamed: one text, tested twice."""

from tests.template.places import PACKAGE, REFERENCE

CLASS = "{{ cookiecutter.__class }}"
MODULE = "{{ cookiecutter.__package }}"

FILES = {
    # template file: (reference file, the class prefix it has there, what to change in it)
    "segments.py": ("segments.py", None, "put the way your system stores records here"),
    "source.py": (
        "folder_source.py",
        "Folder",
        "`read`, and the planner's `latest` and `plan`; a position must be JSON and last for ever",
    ),
    "sink.py": (
        "folder_sink.py",
        "Folder",
        "`promise` says what it keeps; tasks write what nobody sees, `finish` shows it",
    ),
    "client.py": ("client.py", None, "replace it by your system's client library"),
    "broker.py": ("broker.py", None, "remove it: your system has a server of its own"),
    "queue.py": (
        "socket_source.py",
        "Socket",
        "the options, `receive`, and how a message becomes an envelope",
    ),
    "coder.py": ("form.py", "Form", "`schema`, `decode` and `encode`, over whole arrays"),
    "transform.py": ("mask.py", "Mask", "the options, `gives` and `apply`"),
}

MODULES = {
    "penstock.conformance.reference.segments": f"{MODULE}.segments",
    "penstock.conformance.reference.client": f"{MODULE}.client",
    "penstock.conformance.reference.broker": f"{MODULE}.broker",
}


def derived(name: str) -> str:
    """The text of a template file, made from its reference."""
    reference, prefix, change = FILES[name]
    text = (REFERENCE / reference).read_text()
    for old, new in MODULES.items():
        text = text.replace(old, new)
    text = _own_imports_last(text)
    if prefix == "Mask":
        text = text.replace("class Mask(", f"class {CLASS}(")
    elif prefix is not None:
        for kind in ("Source", "Sink", "Planner", "Writer", "Consumer", "Lease", "Coder"):
            text = text.replace(prefix + kind, CLASS + kind)
    head, _, rest = text.removeprefix('"""').partition('"""')
    body = head.rstrip("\n")
    return f'"""{body}\n\nCHANGE {change}.\n"""{rest}'


def _own_imports_last(text: str) -> str:
    """Imports of the plugin's own package stand after those of penstock, as isort wants it."""
    lines, own, out, inside = text.splitlines(), [], [], False
    for line in lines:
        if line.startswith(f"from {MODULE}"):
            own.append(line)
            inside = line.endswith("(")
        elif inside:
            own.append(line)
            inside = line != ")"
        else:
            out.append(line)
    if not any(line.startswith("from penstock.") for line in out):
        return text
    if own:
        last = max(
            at
            for at, line in enumerate(out)
            if line.startswith("from penstock.") or (line == ")" and at < 40)
        )
        out[last + 1 : last + 1] = ["", *own]
    first = next(at for at, line in enumerate(out) if line.startswith("from penstock."))
    if out[first - 1] == "" and out[first - 2].startswith(("import pyarrow", "from attrs")):
        del out[first - 1]  # to a plugin, penstock is a third party like the others
    return "\n".join(out) + "\n"


def update() -> None:
    """Write the derived files into the template."""
    for name in FILES:
        (PACKAGE / name).write_text(derived(name))


if __name__ == "__main__":
    update()
