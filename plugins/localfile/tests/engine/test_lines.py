import io
import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.contracts.errors import ReadError
from penstock_localfile.engine.lines import ANY_END, NEWLINE, line_ends, read_lines


def lines_of(data: bytes, start: int, end: int, block: int = 7, longest: int = 10**6, ends=NEWLINE):
    file = io.BytesIO(data)
    file.seek(max(start - 1, 0))
    found = []
    for run in read_lines(file, start, end, longest=longest, block=block, ends=ends):
        found += zip(run.starts.to_pylist(), run.values.to_pylist(), strict=True)
    return found


def expected(data: bytes) -> list[tuple[int, bytes]]:
    out, at = [], 0
    for line in data.split(b"\n"):
        if at < len(data):
            out.append((at, line.removesuffix(b"\r")))
        at += len(line) + 1
    return out


def expected_of_text(data: bytes) -> list[tuple[int, bytes]]:
    out, at = [], 0
    for line in data.splitlines(keepends=True):
        out.append((at, line.rstrip(b"\r\n")))
        at += len(line)
    return out


EXPECTED = {NEWLINE: expected, ANY_END: expected_of_text}
KINDS = pytest.mark.parametrize("ends", EXPECTED, ids=["newlines", "any ends"])


@KINDS
@given(
    st.lists(st.sampled_from([b"a", b"bcd", b"\n", b"\r\n", b"\r", b"", b"\xff\x00", b"xyz" * 9])),
    st.integers(1, 40),
)
@settings(max_examples=300, deadline=None)
def test_every_line_is_read_once_however_blocks_fall(ends, pieces, block):
    data = b"".join(pieces)
    assert lines_of(data, 0, len(data), block, ends=ends) == EXPECTED[ends](data)


@KINDS
@given(
    st.lists(st.sampled_from([b"a", b"bcd", b"\n", b"\r\n", b"\r", b"xyz" * 9]), min_size=1),
    st.lists(st.integers(0, 60)),
    st.integers(1, 20),
)
@settings(max_examples=300, deadline=None)
def test_ranges_share_the_lines_without_loss_or_double(ends, pieces, cuts, block):
    data = b"".join(pieces)
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    found = []
    for start, end in pairwise(edges):
        found += lines_of(data, start, end, block, ends=ends)
    assert found == EXPECTED[ends](data)


def test_a_line_beyond_the_bound_is_an_error_that_names_its_offset():
    with pytest.raises(ReadError, match="longer than 100 bytes") as caught:
        lines_of(b"short\n" + b"x" * 500, 0, 506, longest=100)
    assert "byte 6" in str(caught.value)


@KINDS
@pytest.mark.parametrize("block", [3, 7, 1000])
@pytest.mark.parametrize("size", [10, 11])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_the_bound_is_exact_wherever_blocks_fall(ends, block, size, end):
    data = b"0123456789\n" * 2 + b"x" * size + end + (b"0123456789\r\n" if end else b"")
    if size <= 10:
        assert len(lines_of(data, 0, len(data), block, 10, ends)) == (4 if end else 3)
        return
    with pytest.raises(ReadError, match="longer than 10 bytes") as caught:
        lines_of(data, 0, len(data), block, 10, ends)
    assert "byte 22" in str(caught.value)


def test_line_ends_are_one_past_each_newline():
    rng = random.Random(7)
    data = bytes(rng.choice(b"ab\n") for _ in range(1000))
    assert line_ends(data).tolist() == [i + 1 for i, b in enumerate(data) if b == 10]
