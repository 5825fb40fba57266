import pickle
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.tests.coders.strategies import batches, flat_types
from penstock.coders.schema import parse_schema
from penstock.coders.xml.coder import XmlCoder, XmlFilter, XmlNodeCoder
from penstock.contracts.errors import OptionError, SchemaError
from penstock.contracts.options import parse

SCHEMA = "_id BIGINT, name STRING, line ARRAY<STRUCT<sku: STRING, qty: INT, _unit: STRING>>"
ORDER = b'<order id="%d"><name>n</name><line unit="kg"><sku>a</sku><qty>1</qty></line></order>'


def binary(*values):
    return pa.array(values, pa.binary())


def legal(text):
    return text is None or not any(
        (ord(c) < 32 and c not in "\t\n\r") or c in "\ufffe\uffff" for c in text
    )


def in_xml(value):
    """Whether XML can hold it: no control characters."""
    if isinstance(value, str):
        return legal(value)
    if isinstance(value, dict):
        return all(in_xml(each) for each in value.values())
    return all(in_xml(each) for each in value) if isinstance(value, list) else True


def structs(kinds):
    fields = st.lists(
        st.tuples(st.sampled_from("abcd"), kinds), min_size=1, max_size=3, unique_by=lambda f: f[0]
    )
    return fields.map(pa.struct)


def lists(kinds):
    return kinds.map(lambda kind: pa.list_(pa.field("element", kind)))


PLAIN = flat_types()


@given(batches(PLAIN | structs(PLAIN) | lists(PLAIN) | lists(structs(PLAIN)), finite=False))
def test_any_rows_come_back(rows):
    coder = XmlCoder(schema=rows.schema, trim=False)
    encoded = coder.encode(rows)
    given_ = rows.to_pylist()
    bad = [i for i, row in enumerate(given_) if not in_xml(row)]
    assert [error.row for error in encoded.errors] == bad
    for text in encoded.values.to_pylist():
        assert text is None or ElementTree.fromstring(text).tag == "row"
    back = coder.decode(encoded.values)
    assert back.errors == ()
    # XML has no empty list: it is no element at all.
    expected = [
        {k: None if v == [] else v for k, v in row.items()}
        for i, row in enumerate(given_)
        if i not in bad
    ]
    assert back.rows.to_pylist() == expected


def test_elements_attributes_lists_and_own_text_are_columns():
    coder = XmlCoder(
        schema="_id INT, name STRUCT<_lang: STRING, _VALUE: STRING>, tag ARRAY<STRING>, day DATE"
    )
    done = coder.decode(
        binary(
            b'<?xml version="1.0"?><o id="7"><name lang="de"> Uhr </name><tag>a</tag><x/><tag/></o>'
        )
    )
    assert done.rows.to_pylist() == [
        {"_id": 7, "name": {"_lang": "de", "_VALUE": "Uhr"}, "tag": ["a", ""], "day": None}
    ]


def test_rows_are_found_by_xpath_and_know_their_message():
    coder = XmlCoder(schema=SCHEMA, row="//order")
    done = coder.decode(
        binary(
            b"<all>" + ORDER % 1 + b"<deep>" + ORDER % 2 + b"</deep></all>",
            None,
            b"<all/>",
            b"<all>" + ORDER % 3 + b'<order id="x"/></all>',
            ORDER % 4,
        )
    )
    assert done.rows.column("_id").to_pylist() == [1, 2, 4]
    assert done.origin.to_pylist() == [0, 0, 4]
    assert [error.row for error in done.errors] == [3]


def test_columns_can_have_paths_and_namespaces():
    coder = XmlCoder(
        schema="id INT, total DOUBLE, many INT, names ARRAY<STRING>",
        row="//o:order",
        namespaces={"o": "urn:orders"},
        paths={
            "total": "o:sum/@amount",
            "many": "count(o:line)",
            "names": "o:line/o:name/text()",
        },
    )
    text = (
        b'<x:all xmlns:x="urn:orders"><x:order><x:id>1</x:id><x:sum amount="2.5"/>'
        b"<x:line><x:name>a</x:name></x:line><x:line><x:name>b</x:name></x:line></x:order>"
        b'<order xmlns="urn:other"><id>2</id></order><x:order/></x:all>'
    )
    assert coder.decode(binary(text)).rows.to_pylist() == [
        {"id": 1, "total": 2.5, "many": 2, "names": ["a", "b"]},
        {"id": None, "total": None, "many": 0, "names": None},
    ]


def test_encodings_are_declared_by_the_document():
    text = "<?xml version='1.0' encoding='{}'?><o><name>Grüße</name></o>"
    values = [text.format(name).encode(name) for name in ("utf-8", "iso-8859-1", "utf-16")]
    assert (
        XmlCoder(schema="name STRING").decode(binary(*values)).rows.column(0).to_pylist()
        == ["Grüße"] * 3
    )


LAUGHS = (
    b'<!DOCTYPE o [<!ENTITY a "ha">'
    + b"".join(
        b'<!ENTITY a%d "%s">' % (i, b"&a%s;" % (str(i - 1).encode() if i else b"") * 10)
        for i in range(12)
    )
    + b"]><o><name>&a11;</name></o>"
)

BAD = {
    "nothing": b"",
    "no XML": b"hello",
    "cut off": ORDER[:30] % 1,
    "two roots": b"<a/><b/>",
    "bytes that are no UTF-8": b"<o><name>\xff</name></o>",
    "a text that is no number": b'<o id="x"/>',
    "a number out of range": b'<o id="99999999999999999999"/>',
    "an element twice": b"<o><name>a</name><name>b</name></o>",
    "an external entity": b'<!DOCTYPE o [<!ENTITY x SYSTEM "file:///etc/hostname">]><o><name>&x;</name></o>',
    "an undeclared entity": b"<o><name>&x;</name></o>",
    "a document type alone": b"<!DOCTYPE o><o/>",
    "a document type in UTF-16": "<?xml version='1.0' encoding='utf-16'?><!DOCTYPE o [<!ENTITY x 'y'>]><o><name>&x;</name></o>".encode(
        "utf-16"
    ),
    "a billion laughs": LAUGHS,
    "a parameter entity": b'<!DOCTYPE o [<!ENTITY % p SYSTEM "http://127.0.0.1:1/x">%p;]><o/>',
    "depth": b"<o>" * 100_000,
    "closed depth": b"<o>" * 5000 + b"</o>" * 5000,
    "a control character": b"<o><name>\x01</name></o>",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_document_is_one_error_and_its_neighbours_are_read(name):
    began = time.monotonic()
    done = XmlCoder(schema=SCHEMA).decode(binary(ORDER % 1, BAD[name], ORDER % 2))
    assert time.monotonic() - began < 1
    assert done.rows.column("_id").to_pylist() == [1, 2]
    (error,) = done.errors
    assert error.row == 1


def in_utf16(text):
    """A document whose bytes do not hold the ASCII letters of `<!DOCTYPE`."""
    return ("<?xml version='1.0' encoding='utf-16'?>" + text).encode("utf-16")


ENTITIES = "".join(f"<!ENTITY e{n} 'x'>" for n in range(300_000))
BOMBS = {
    "a billion laughs": LAUGHS,
    "a billion laughs in UTF-16": in_utf16(LAUGHS.decode()),
    "laughs in an attribute": in_utf16(LAUGHS.decode().partition("]>")[0] + "]><o id='&a11;'/>"),
    "a long entity many times": in_utf16(
        f"<!DOCTYPE o [<!ENTITY e '{'x' * 100_000}'>]><o>{'&e;' * 100_000}</o>"
    ),
    "many entities that nobody uses": in_utf16(f"<!DOCTYPE o [{ENTITIES}]><o/>"),
    "an attribute for every element": in_utf16(
        f"<!DOCTYPE o [<!ATTLIST p a CDATA '{'x' * 10_000}'>]><o>{'<p/>' * 50_000}</o>"
    ),
}
MEASURED = r"""
import re, sys, time
from pathlib import Path
import pyarrow as pa
from penstock.coders.schema import parse_schema
from penstock.coders.xml.coder import XmlCoder

def kib(name):
    return int(re.search(name + r":\s+(\d+) kB", Path("/proc/self/status").read_text())[1])

coder = XmlCoder(schema=sys.argv[1])
good = b"<o><name>a</name></o>"
coder.decode(pa.array([good], pa.binary()))
values = pa.array([good, sys.stdin.buffer.read(), good], pa.binary())
Path("/proc/self/clear_refs").write_text("5")  # the peak is that of now
before, began = kib("VmRSS"), time.monotonic()
done = coder.decode(values)
print(time.monotonic() - began, kib("VmHWM") - before, done.rows.num_rows)
print(*(f"{error.row} {error.kind}" for error in done.errors), sep=", ")
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="no peak to ask for")
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_takes_neither_time_nor_memory(name):
    """In a process of its own: only the system sees what libxml2 and Arrow take."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, SCHEMA], input=BOMBS[name], capture_output=True, check=True
    )
    numbers, errors = done.stdout.decode().splitlines()
    seconds, grown, rows = map(float, numbers.split())
    assert seconds < 1
    assert grown < 50 * 2**10
    assert (rows, errors) == (2, "1 CodecError")


def test_documents_that_make_a_whole_together_stay_apart():
    halves = [b"<o>", b"</o>", b"<o/><o/>", b"<o/> x", b"<o><![CDATA[", b"]]></o>", b"</r><r>"]
    declared = [b"<?xml versi", b'on="1.0"?><o/>', b'<?xml version="1.0"', b"?><o/>"]
    for bad in (halves, [b"<o>", b"</o>"], [b"<o/><o/>", b""], [b"</r><r>"], declared):
        done = XmlCoder(schema=SCHEMA).decode(binary(ORDER % 1, *bad, ORDER % 2))
        assert done.rows.column("_id").to_pylist() == [1, 2]
        assert [error.row for error in done.errors] == list(range(1, len(bad) + 1))


def test_errors_never_repeat_the_payload():
    values = [b"CANARY", b'<o id="CANARY"/>', b"<CANARY>", b"<o>&CANARY;</o>"]
    done = XmlCoder(schema=SCHEMA).decode(binary(*values))
    assert len(done.errors) == 4
    assert "CANARY" not in str(done.errors)


def test_old_and_new_documents_are_read_with_one_schema():
    values = binary(b"<o><a>1</a></o>", b"<o><b>x</b><a>2</a><c><d/></c></o>")
    assert XmlCoder(schema="a INT, b STRING").decode(values).rows.to_pylist() == [
        {"a": 1, "b": None},
        {"a": 2, "b": "x"},
    ]


def test_narrowing_reads_only_those_columns():
    coder = XmlCoder(schema=SCHEMA).narrowed(["name"])
    assert coder.decode(binary(b'<o id="never"><name>a</name></o>')).rows.to_pylist() == [
        {"name": "a"}
    ]


@pytest.mark.parametrize("schema", ["m MAP<STRING, INT>", "l ARRAY<ARRAY<INT>>"])
def test_types_xml_has_no_form_for_are_refused(schema):
    with pytest.raises(SchemaError):
        XmlCoder(schema=schema).schema()


@pytest.mark.parametrize(
    "options",
    [
        {"row": "//["},
        {"row": "//x:a"},
        {"paths": {"a": "((("}},
        {"paths": {"zz": "a"}},
        {"element": "a b"},
    ],
)
def test_expressions_that_make_no_sense_are_refused(options):
    with pytest.raises(OptionError):
        parse(XmlCoder, {"schema": "a INT", **options}).schema()


def test_nodes_are_parsed_filtered_and_rendered():
    coder = XmlNodeCoder()
    nodes, errors = coder.parse(binary(b"<o><t>5</t></o>", None, b"<o>", b"<o><t>500</t></o>"))
    assert [error.row for error in errors] == [2]
    kept = XmlFilter(where="/o[t > 100]").apply(nodes)
    assert [each is not None for each in kept] == [False, False, False, True]
    assert coder.render(kept).values.to_pylist() == [None, None, None, b"<o><t>500</t></o>"]


def test_a_filter_may_be_a_condition_and_use_namespaces():
    nodes, _ = XmlNodeCoder().parse(binary(b'<o xmlns="urn:x"><t>5</t></o>', b"<o/>"))
    step = XmlFilter(where="count(//x:t) = 1", namespaces={"x": "urn:x"})
    assert [each is not None for each in step.apply(nodes)] == [True, False]
    assert str(step.wants()) == "xml-node"
    assert pickle.loads(pickle.dumps(step)) == step


@given(st.lists(st.binary(max_size=30) | st.text('<o>/ a="&;1', max_size=20).map(str.encode)))
def test_any_bytes_give_rows_or_errors_as_they_do_alone(values):
    coder = XmlCoder(schema=SCHEMA)
    done = coder.decode(pa.array(values, pa.binary()))
    alone = [coder.decode(binary(value)) for value in values]
    assert done.rows.to_pylist() == [row for each in alone for row in each.rows.to_pylist()]
    assert [error.row for error in done.errors] == [
        i for i, each in enumerate(alone) if each.errors
    ]


@pytest.mark.parametrize(
    "columns", ["`a b` INT", "`1st` INT", "a STRUCT<`<b`: INT>", "`_x y` INT", "`{u}a` INT"]
)
def test_a_column_that_is_no_xml_name_is_refused(columns):
    with pytest.raises(SchemaError, match="XML"):
        XmlCoder(schema=columns).schema()


def test_a_column_read_by_its_path_may_be_called_anything():
    coder = XmlCoder(schema="`total sum` INT", paths={"total sum": "sum"})
    done = coder.decode(pa.array([b"<o><sum>3</sum></o>"], pa.binary()))
    assert done.rows.to_pylist() == [{"total sum": 3}]
    with pytest.raises(SchemaError, match="total sum"):
        coder.encode(done.rows)


SAMPLE = b"""<?xml version="1.0"?>
<o:orders xmlns:o="urn:o" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
  <o:order id="1"><total cur="EUR">2.5</total><day>2024-01-31</day><line><sku>7</sku></line></o:order>
  <o:order id="2" paid="true"><total cur="USD">3</total><at>2024-01-31T10:00:00Z</at>
    <line><sku>x</sku></line><line qty="3"/><gone xsi:nil="true"/><note> hi </note></o:order>
</o:orders>"""


def test_a_schema_is_inferred_from_a_sample(tmp_path):
    sample = tmp_path / "sample.xml"
    sample.write_bytes(SAMPLE)
    coder = parse(
        XmlCoder, {"sample": str(sample), "row": "//x:order", "namespaces": {"x": "urn:o"}}
    )
    assert coder.schema().equals(
        parse_schema(
            "_id BIGINT, _paid BOOLEAN, total STRUCT<_cur: STRING, _VALUE: DOUBLE>, day DATE, "
            "line ARRAY<STRUCT<_qty: BIGINT, sku: STRING>>, at TIMESTAMP, gone STRING, note STRING"
        )
    )
    narrow = coder.narrowed(["total", "line"])
    sample.unlink()
    for each in (narrow, pickle.loads(pickle.dumps(narrow))):
        assert each.decode(binary(SAMPLE)).rows.to_pylist() == [
            {"total": {"_cur": "EUR", "_VALUE": 2.5}, "line": [{"_qty": None, "sku": "7"}]},
            {
                "total": {"_cur": "USD", "_VALUE": 3.0},
                "line": [{"_qty": None, "sku": "x"}, {"_qty": 3, "sku": None}],
            },
        ]


@pytest.mark.parametrize("text", [b"<o>", b"<o/>", LAUGHS, b"<o><_a>1</_a></o>"])
def test_a_sample_that_shows_no_columns_is_refused(tmp_path, text):
    sample = tmp_path / "sample.xml"
    sample.write_bytes(text)
    with pytest.raises(SchemaError):
        XmlCoder(sample=str(sample)).schema()


def test_xml_wants_one_schema_and_a_sample_that_is_there(tmp_path):
    for options in ({}, {"schema": "a INT", "sample": "x"}):
        with pytest.raises(OptionError, match="one schema"):
            parse(XmlCoder, options)
    with pytest.raises(OptionError, match="sample cannot be read"):
        XmlCoder(sample=str(tmp_path / "none.xml")).schema()
