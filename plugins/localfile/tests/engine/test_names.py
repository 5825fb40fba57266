import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contracts.errors import OptionError, WriteError
from penstock_localfile.engine.names import divide, literal, matcher, safe, shown, unshown


@given(st.binary())
def test_a_shown_name_is_printable_and_leads_back_to_its_bytes(path):
    assert shown(path).isprintable()
    assert unshown(shown(path)) == path


@given(st.binary(), st.binary())
def test_two_names_never_show_alike(one, other):
    assert (shown(one) == shown(other)) == (one == other)


def test_a_plain_name_shows_as_it_is():
    assert shown("straße/ünï 100%.txt".encode()) == "straße/ünï 100%.txt"


@pytest.mark.parametrize(
    "path", [b"", b"/etc/passwd", b"../x", b"a/../../x", b"a//b", b"a/./b", b"a\0b", b"x" * 256]
)
def test_a_name_that_leaves_the_root_is_refused(path):
    with pytest.raises(WriteError, match="refused"):
        safe(path)


@pytest.mark.parametrize("path", [b"a", b"a/b", b"x" * 255, b"a\nb", b"\xff\xfe", b"..a", b"a.."])
def test_an_odd_name_below_the_root_is_allowed(path):
    assert safe(path) == path


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("/data/in", ("/data/in", "")),
        ("/data/in/*.log", ("/data/in", "*.log")),
        ("/data/*/x/**", ("/data", "*/x/**")),
        ("*.log", (".", "*.log")),
        ("/*.log", ("/", "*.log")),
    ],
)
def test_a_path_divides_into_a_root_and_a_glob(path, parts):
    assert divide(path) == parts


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.log", b"a.log", True),
        ("*.log", b"x/a.log", False),
        ("**/*.log", b"x/y/a.log", True),
        ("**/*.log", b"a.log", True),
        ("a?c", "aßc".encode(), True),
        ("a?c", b"a/c", False),
        ("[a-c]x", b"bx", True),
        ("[!a-c]x", b"bx", False),
        ("*.{csv,json}", b"a.json", True),
        ("*.{csv,json}", b"a.xml", False),
        ("*", b"a\nb", True),
        ("a.b", b"aXb", False),
    ],
)
def test_globs_match_as_in_a_shell(pattern, path, matches):
    assert bool(matcher(pattern).match(path)) is matches


def test_a_literal_pattern_matches_only_its_name():
    assert matcher(literal("a*[b].txt")).match(b"a*[b].txt")
    assert not matcher(literal("a*[b].txt")).match(b"aXb.txt")


@pytest.mark.parametrize("pattern", ["[ab", "{a,b"])
def test_an_open_bracket_is_an_option_error(pattern):
    with pytest.raises(OptionError, match="not closed"):
        matcher(pattern)
