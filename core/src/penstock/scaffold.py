"""A new connector from the template: what `penstock new` does."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from penstock.contracts.errors import OptionError, SetupError, did_you_mean

SHAPES = ("source", "queue", "sink", "source-and-sink", "coder", "transform")
LICENCES = ("Apache-2.0", "MIT", "BSD-3-Clause", "Proprietary")


def template() -> Path:
    """Where the template lies: inside an installed penstock, or beside it in the source tree.

    Raises:
        SetupError: in neither place.
    """
    here = Path(__file__).resolve().parent
    for place in (here / "_template", *(up / "cookiecutter-connector" for up in here.parents)):
        if (place / "cookiecutter.json").is_file():
            return place
    raise SetupError("the connector template is missing", fix="reinstall penstock")


def new(
    name: str, shape: str = "source", licence: str = "Apache-2.0", folder: str | Path = "."
) -> Path:
    """Make the project of a new connector, coder or transform; it works at once.

    Args:
        name: As users will write it: lower-case letters, digits, single dashes.
        shape: One of `SHAPES`.
        licence: One of `LICENCES`.
        folder: Where the project's folder is made.

    Returns:
        The project's folder, `penstock-NAME`.

    Raises:
        OptionError: an answer that is none, or the folder is there already.
        SetupError: cookiecutter is not installed.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise OptionError(
            "this is no name for a connector",
            expected="lower-case letters, digits and single dashes",
            got=repr(name),
        )
    for what, given, known in (("shape", shape, SHAPES), ("licence", licence, LICENCES)):
        if given not in known:
            raise OptionError(
                f"there is no such {what}",
                expected="one of " + ", ".join(known),
                got=repr(given),
                fix=did_you_mean(given, known),
            )
    target = Path(folder) / f"penstock-{name}"
    if target.exists():
        raise OptionError("the folder is there already", got=str(target), fix="choose another name")
    if find_spec("cookiecutter") is None:
        raise SetupError(
            "the template needs cookiecutter", fix='pip install "penstock[new]"', who="penstock new"
        )
    from cookiecutter.main import cookiecutter

    answers = {"name": name, "shape": shape, "licence": licence}
    made = cookiecutter(
        str(template()),
        no_input=True,
        extra_context=answers,
        output_dir=str(folder),
        accept_hooks=True,
    )
    return Path(made)
