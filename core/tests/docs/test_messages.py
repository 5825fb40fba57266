"""What the troubleshooting page quotes is what the code says."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "sdk-docs" / "troubleshooting.md"
# Said by Spark and Python, not by us.
THEIRS = ("[DATA_SOURCE_NOT_FOUND]", "ModuleNotFoundError")
ANY = "*"


def quoted():
    rows = re.findall(r"^\| (.+?) \|", PAGE.read_text(), re.M)
    messages = [text for row in rows[1:] for text in re.findall(r"`([^`]+)`", row)]
    return [m for m in messages if " " in m and not m.startswith(THEIRS)]


def words(text):
    return [word.strip(".,;:'\"") or ANY for word in text.replace("...", f" {ANY} ").split()]


@pytest.fixture(scope="module")
def sentences():
    """Every text in the code as words, with a star where something is filled in."""
    found = []
    for file in [*ROOT.glob("core/src/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(words(node.value))
            elif isinstance(node, ast.JoinedStr):
                parts = [p.value if isinstance(p, ast.Constant) else ANY for p in node.values]
                found.append(words("".join(parts)))
    return found


def is_said(message, sentence):
    for start in range(len(sentence) - len(message) + 1):
        pairs = list(zip(message, sentence[start:], strict=False))
        if all(said == there or ANY in said + there for said, there in pairs):
            return sum(said == there for said, there in pairs) >= 2
    return False


def test_the_page_quotes_something():
    assert len(quoted()) >= 8


@pytest.mark.parametrize("message", quoted())
def test_a_quoted_message_is_in_the_code(message, sentences):
    assert any(is_said(words(message), sentence) for sentence in sentences)


def test_a_message_that_nobody_says_is_found_out(sentences):
    assert not any(is_said(words("the flux is out of phase"), each) for each in sentences)
