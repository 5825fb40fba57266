import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.tests.coders.strategies import TEXTS
from penstock.coders.text import BytesCoder, TextCoder
from penstock.contracts.errors import OptionError
from penstock.contracts.options import parse


def binary(*values):
    return pa.array(values, pa.binary())


def test_bytes_stay_as_they_are():
    done = BytesCoder().decode(binary(b"a", None, b"\xff"))
    assert done.rows.to_pydict() == {"value": [b"a", b"\xff"]}
    assert done.origin.to_pylist() == [0, 2]
    assert BytesCoder().encode(done.rows).values == binary(b"a", b"\xff")


@given(
    st.lists(TEXTS.map(lambda t: t.lstrip("\ufeff"))),
    st.sampled_from(["utf-8", "utf-16", "utf-32-le", "utf-8-sig", "gb18030"]),
)
def test_text_comes_back_from_any_unicode_encoding(texts, encoding):
    coder = TextCoder(encoding=encoding)
    rows = pa.RecordBatch.from_pydict({"value": pa.array(texts, pa.string())})
    encoded = coder.encode(rows)
    assert encoded.values.to_pylist() == [text.encode(encoding) for text in texts]
    assert coder.decode(encoded.values).rows.equals(rows)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "utf-16"])
def test_bad_bytes_are_one_rows_error(encoding):
    good = "abc".encode(encoding)
    done = TextCoder(encoding=encoding).decode(binary(good, b"\xff\xfe\xff", None, good))
    assert done.rows.column(0).to_pylist() == ["abc", "abc"]
    assert done.origin.to_pylist() == [0, 3]
    assert [error.row for error in done.errors] == [1]
    assert encoding in done.errors[0].message


def test_a_character_the_encoding_lacks_is_one_rows_error():
    rows = pa.RecordBatch.from_pydict({"value": ["a", "€", None]})
    done = TextCoder(encoding="latin-1").encode(rows)
    assert done.values.to_pylist() == [b"a", None, None]
    assert [error.row for error in done.errors] == [1]


def test_lines_become_rows_of_their_message():
    done = TextCoder(lines=True).decode(binary(b"a\n\nb\r\n", b"", None, b"c"))
    assert done.rows.column(0).to_pylist() == ["a", "", "b", "c"]
    assert done.origin.to_pylist() == [0, 0, 0, 3]


@pytest.mark.parametrize("encoding", ["klingon", "base64", "rot13"])
def test_an_unknown_encoding_is_refused(encoding):
    with pytest.raises(OptionError, match="encoding"):
        parse(TextCoder, {"encoding": encoding})


def test_coders_pickle():
    assert pickle.loads(pickle.dumps(TextCoder(encoding="utf-16"))) == TextCoder(encoding="utf-16")
