import io
import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.contracts.errors import ReadError
from penstock_localfile.engine.lines import line_ends, read_lines


def lines_of(data: bytes, start: int, end: int, block: int = 7, longest: int = 10**6):
    file = io.BytesIO(data)
    file.seek(max(start - 1, 0))
    found = []
    for run in read_lines(file, start, end, longest=longest, block=block):
        found += zip(run.starts.to_pylist(), run.values.to_pylist(), strict=True)
    return found


def expected(data: bytes) -> list[tuple[int, bytes]]:
    out, at = [], 0
    for line in data.split(b"\n"):
        if at < len(data):
            out.append((at, line.removesuffix(b"\r")))
        at += len(line) + 1
    return out


@given(
    st.lists(st.sampled_from([b"a", b"bcd", b"\n", b"\r\n", b"", b"\xff\x00", b"xyz" * 9])),
    st.integers(1, 40),
)
@settings(max_examples=300, deadline=None)
def test_every_line_is_read_once_however_blocks_fall(pieces, block):
    data = b"".join(pieces)
    assert lines_of(data, 0, len(data), block) == expected(data)


@given(
    st.lists(st.sampled_from([b"a", b"bcd", b"\n", b"\r\n", b"xyz" * 9]), min_size=1),
    st.lists(st.integers(0, 60)),
    st.integers(1, 20),
)
@settings(max_examples=300, deadline=None)
def test_ranges_share_the_lines_without_loss_or_double(pieces, cuts, block):
    data = b"".join(pieces)
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    found = []
    for start, end in pairwise(edges):
        found += lines_of(data, start, end, block)
    assert found == expected(data)


def test_a_line_beyond_the_bound_is_an_error_that_names_its_offset():
    with pytest.raises(ReadError, match="longer than 100 bytes") as caught:
        lines_of(b"short\n" + b"x" * 500, 0, 506, longest=100)
    assert "byte 6" in str(caught.value)


def test_line_ends_are_one_past_each_newline():
    rng = random.Random(7)
    data = bytes(rng.choice(b"ab\n") for _ in range(1000))
    assert line_ends(data).tolist() == [i + 1 for i, b in enumerate(data) if b == 10]
