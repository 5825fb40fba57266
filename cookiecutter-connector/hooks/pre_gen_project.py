"""Refuses a name that could be no package."""

import re
import sys

NAME = "{{ cookiecutter.__name }}"

if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", NAME):
    sys.stderr.write(f"{NAME!r} is no name: use lower-case letters, digits and single dashes\n")
    sys.exit(1)
