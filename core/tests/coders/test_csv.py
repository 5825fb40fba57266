import csv
import io
import pickle

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.tests.coders.strategies import batches, flat_types
from penstock.coders.csv import CsvCoder
from penstock.contracts.errors import OptionError, SchemaError
from penstock.contracts.options import parse

SCHEMA = "id BIGINT, name STRING, day DATE"


def binary(*values):
    return pa.array(values, pa.binary())


@given(batches(flat_types(), finite=False))
def test_any_rows_come_back(rows):
    coder = CsvCoder(schema=rows.schema)
    done = coder.decode(coder.encode(rows).values)
    assert done.errors == ()
    assert done.rows.equals(rows)


@given(batches(st.sampled_from([pa.string(), pa.int64()]), max_rows=4))
def test_pythons_own_reader_agrees(rows):
    for value, row in zip(
        CsvCoder(schema=rows.schema).encode(rows).values, rows.to_pylist(), strict=True
    ):
        text = value.as_py().decode()
        read = next(csv.reader(io.StringIO(text, newline="")), [""])
        assert read == ["" if each is None else str(each) for each in row.values()]


BAD = {
    b"x,a,": "field id is no int64",
    b"1,a": "2 fields, not 3",
    b"1,a,,": "4 fields, not 3",
    b"": "1 fields, not 3",
    b'1,"a,': "fields",
    b'"': "fields",
    b"1,a,\n2,b,": "fields",
    b'1,"a\n2,b,",c': "day",
    b"1,a,2020-99-01": "day",
    b"99999999999999999999,a,": "field id",
    b"\xff,a,": "utf-8",
}


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: repr(bad)[:30])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_bad_record_is_named_and_its_neighbours_are_read(bad, count):
    good = [b'%d,"n,%d",' % (i, i) for i in range(count)]
    done = CsvCoder(schema=SCHEMA).decode(binary(*good, bad, *good))
    assert done.rows.column("id").to_pylist() == [*range(count), *range(count)]
    (error,) = done.errors
    assert error.row == count
    assert BAD[bad] in error.message


def test_quotes_that_close_in_another_record_stay_apart():
    done = CsvCoder(schema=SCHEMA).decode(binary(b"0,a,", b'1,"b', b'c",', b"3,d,\n4,e,", b"5,f,"))
    assert done.rows.column("id").to_pylist() == [0, 5]
    assert [error.row for error in done.errors] == [1, 2, 3]


def test_errors_never_repeat_the_payload():
    done = CsvCoder(schema=SCHEMA).decode(binary(b"CANARY,a,", b"CANARY", b"1,a,CANARY"))
    assert len(done.errors) == 3
    assert "CANARY" not in str(done.errors)


def test_nothing_quoted_is_null_and_quotes_alone_are_an_empty_text():
    done = CsvCoder(schema=SCHEMA).decode(binary(b"1,,\r\n", b'2,"",'))
    assert done.rows.column("name").to_pylist() == [None, ""]


def test_delimiter_quote_and_null_can_be_chosen():
    coder = CsvCoder(schema=SCHEMA, delimiter=";", quote="'", null="NA")
    rows = coder.decode(binary(b"1;'a;b';NA")).rows
    assert rows.to_pylist() == [{"id": 1, "name": "a;b", "day": None}]
    assert coder.encode(rows).values.to_pylist() == [b"1;'a;b';NA"]


def test_a_file_with_a_header_gives_a_row_per_line():
    coder = CsvCoder(schema="id INT, name STRING", layout="lines", header=True)
    done = coder.decode(
        binary(b'name,more,id\na,x,1\n"b\nc",y,2\n', None, b"id\n3\n", b"id,name\nx,q\n", b"")
    )
    assert done.rows.to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": "b\nc"}]
    assert done.origin.to_pylist() == [0, 0]
    assert [error.row for error in done.errors] == [2, 3]
    again = coder.decode(coder.encode(done.rows).values)
    assert again.rows.equals(done.rows)


def test_narrowing_reads_only_those_columns():
    coder = CsvCoder(schema=SCHEMA).narrowed(["name"])
    done = coder.decode(binary(b"never,a,looked at"))
    assert done.rows.to_pylist() == [{"name": "a"}]


def test_a_schema_is_inferred_from_a_sample(tmp_path):
    sample = tmp_path / "sample.csv"
    sample.write_text("id,price\n1,1.5\n")
    coder = CsvCoder(sample=str(sample))
    assert coder.schema() == pa.schema([("id", pa.int64()), ("price", pa.float64())])


def test_nested_columns_are_refused():
    with pytest.raises(SchemaError, match="flat"):
        CsvCoder(schema="a ARRAY<INT>").schema()


@pytest.mark.parametrize(
    "options", [{"delimiter": "||"}, {"delimiter": '"'}, {"header": True}, {"quote": ""}]
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(OptionError):
        parse(CsvCoder, {"schema": SCHEMA, **options})


@given(st.lists(st.binary(max_size=20) | st.text('",\n1a', max_size=8).map(str.encode)))
@example([b'\n"', b'",'])  # an empty line, and a quote that the next message would close
def test_any_bytes_give_rows_or_errors(values):
    done = CsvCoder(schema="a STRING, b INT").decode(pa.array(values, pa.binary()))
    assert done.rows.num_rows + len(done.errors) == len(values)
    good = {
        index: values[index] for index in (done.origin or pa.array(range(len(values)))).to_pylist()
    }
    alone = [
        CsvCoder(schema="a STRING, b INT").decode(binary(v)).rows.to_pylist() for v in good.values()
    ]
    assert done.rows.to_pylist() == [row for rows in alone for row in rows]


def test_a_record_is_read_the_same_whoever_its_neighbours_are():
    coder = CsvCoder(schema="id BIGINT, name STRING")
    values = [b"\xef\xbb\xbf1,a", b"\xef\xbb\xbf2,b\r\n", b"3,c\r", b"4,d\n", b"5,e"]
    together = coder.decode(pa.array(values, pa.binary()))
    alone = [coder.decode(pa.array([value], pa.binary())) for value in values]
    assert together.errors == ()
    assert together.rows.to_pylist() == [row for done in alone for row in done.rows.to_pylist()]
    assert together.rows.column("id").to_pylist() == [1, 2, 3, 4, 5]


def test_a_header_quotes_names_as_fields_are_quoted():
    schema = pa.schema([("a,b", pa.int64()), ('say "x"', pa.string()), ("plain", pa.string())])
    coder = CsvCoder(schema=schema, layout="lines", header=True)
    rows = pa.RecordBatch.from_pylist([{"a,b": 1, 'say "x"': "y", "plain": "z"}], schema=schema)
    (value,) = coder.encode(rows).values.to_pylist()
    assert value.splitlines()[0] == b'"a,b","say ""x""",plain'
    assert coder.decode(pa.array([value], pa.binary())).rows.to_pylist() == rows.to_pylist()


def test_a_samples_schema_travels_without_the_sample(tmp_path):
    sample = tmp_path / "sample"
    sample.write_bytes(b"id,name\n1,a\n")
    coder = CsvCoder(sample=str(sample))
    assert coder.schema().names == ["id", "name"]
    narrow = coder.narrowed(["name"])
    sample.unlink()
    for each in (coder, narrow):
        assert pickle.loads(pickle.dumps(each)).schema() == each.schema()
    with pytest.raises(OptionError, match="sample cannot be read"):
        CsvCoder(sample=str(sample)).schema()
