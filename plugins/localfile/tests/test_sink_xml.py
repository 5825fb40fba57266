"""The sink's XML files, as our own source and any parser read them."""

import pyarrow as pa
import pytest
from lxml import etree

from penstock.contracts import ENVELOPE, Context
from penstock.contracts.errors import OptionError, SchemaError
from penstock_localfile.sink import LocalFileSink
from penstock_localfile.source import LocalFiles
from plugins.localfile.tests.test_sink_formats import TABLE, files, write


def elements(folder, **options):
    source = LocalFiles(path=str(folder), format="xml", recursive=True, **options)
    planner = source.planner(Context())
    parts = planner.plan(planner.initial(), planner.final())
    planner.close()
    return [v for p in parts for b in source.read(p) for v in b.column("value").to_pylist()]


@pytest.mark.parametrize("packed", ["none", "gzip"])
def test_rows_become_elements_of_one_document(tmp_path, packed):
    sink = LocalFileSink(
        path=str(tmp_path), format="xml", root="people", element="person", compression=packed
    )
    write(sink, TABLE)
    found = [etree.fromstring(text) for text in elements(tmp_path, row="/people/person")]
    assert [int(e.findtext("id")) for e in found] == list(range(40))
    assert [e.findtext("name") for e in found] == TABLE.column("name").to_pylist()


def test_folders_are_named_by_columns(tmp_path):
    write(LocalFileSink(path=str(tmp_path), format="xml", partition_by=["country"]), TABLE)
    assert {name.partition("/")[0] for name in files(tmp_path)} == {"country=de", "country=fr"}
    assert len(elements(tmp_path)) == 40


def envelopes(*values):
    return pa.RecordBatch.from_pylist([{"value": v} for v in values], schema=ENVELOPE)


def test_elements_that_a_source_gave_are_written_as_they_are(tmp_path):
    given = [b'<order id="1">\xc3\xa4</order>', b"<order><line/></order>"]
    write(LocalFileSink(path=str(tmp_path), format="xml", root="orders"), envelopes(*given))
    assert elements(tmp_path, row="/orders/order") == given


def test_what_is_no_element_is_refused_and_harms_no_other(tmp_path):
    rows = envelopes(b"<a/>", b"</rows><rows>", b"<b/>", b"<!DOCTYPE x><x/>", b"<c/><d/>", None)
    (receipt,) = write(LocalFileSink(path=str(tmp_path), format="xml"), rows)
    assert elements(tmp_path) == [b"<a/>", b"<b/>"]
    assert receipt.rows == 2
    refused = [v for r in receipt.rejected for v in r.rows.column("value").to_pylist()]
    assert refused == [b"</rows><rows>", b"<!DOCTYPE x><x/>", b"<c/><d/>", None]


def test_a_text_that_xml_cannot_hold_is_refused(tmp_path):
    rows = pa.RecordBatch.from_pydict({"id": [1, 2], "name": ["good", "\0"]})
    (receipt,) = write(LocalFileSink(path=str(tmp_path), format="xml"), rows)
    assert elements(tmp_path) == [b"<row><id>1</id><name>good</name></row>"]
    assert [r.rows.column("id").to_pylist() for r in receipt.rejected] == [[2]]


def test_names_that_xml_does_not_allow_are_told_before_anything_is_written(tmp_path):
    with pytest.raises(OptionError, match="root"):
        LocalFileSink(path=str(tmp_path), format="xml", root="a b")
    with pytest.raises(SchemaError, match="the column a b cannot be the name"):
        LocalFileSink(path=str(tmp_path), format="xml").accepts(pa.schema([("a b", pa.int64())]))
