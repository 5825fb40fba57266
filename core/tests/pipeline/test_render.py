"""Golden explains: what users see of a plan."""

from __future__ import annotations

import json

import pytest

import penstock as pen
from penstock.contracts.errors import DeclareError


def worked_example() -> pen.Flow:
    """AMQP queue, XML filter, standard output; a stand-in holds the queue's place."""
    return pen.pipeline(
        "orders",
        pen.source("amqp-queue", queue="orders")
        >> pen.step("xml-filter", "//order[total > 100]")
        >> pen.sink("stdout", on="driver"),
    )


def test_the_worked_example_grows_from_three_stages_to_seven() -> None:
    assert (
        worked_example().explain()
        == """\
pipeline orders: at-least-once

declared
  amqp-queue [bytes]  x1  queue, optimistic
  >> [xml-node] xml-filter [xml-node]  x*
  >> [bytes] stdout  x1  on driver, append

network: split and merge where parallelism, key or place changes
  amqp-queue [bytes]  x1
  >> [any] split [any]  x* round robin
  >> [xml-node] xml-filter [xml-node]  x*
  >> [any] merge-sort [any]  x1  on driver
  >> [bytes] stdout  x1  on driver

coders: types brought together
  amqp-queue [bytes]  x1
  >> [bytes] split [bytes]  x* round robin
  >> [bytes] xml-node-decode [xml-node]  x*
  >> [xml-node] xml-filter [xml-node]  x*
  >> [xml-node] xml-node-encode [bytes]  x*
  >> [bytes] merge-sort [bytes]  x1  on driver
  >> [bytes] stdout  x1  on driver

fused: what runs where
  reader amqp-queue [bytes]  x1
  reader >> [bytes] split [bytes]  x* round robin
  reader >> [bytes] xml-node-decode [xml-node]  x*
  reader >> [xml-node] xml-filter [xml-node]  x*
  reader >> [xml-node] xml-node-encode [bytes]  x*
  spark  >> [bytes] merge-sort [bytes]  x1  on driver
  driver >> [bytes] stdout  x1  on driver

notes
  amqp-queue: at-least-once, with optimistic delivery the broker repeats what was in flight
  stdout: at-least-once, a batch written again is there twice
"""
    )


def two_sources_three_sinks() -> pen.Flow:
    schema = "id long, total double"
    kafka = pen.source("generator", rows=10, name="web").decode("json", schema=schema)
    files = pen.source("generator", rows=10, name="shop").decode(
        "json", schema=schema, name="decode-shop"
    )
    orders = kafka.merge(files)
    big, rest = orders.branch("total > 100", names=("big", "rest"))
    return pen.pipeline(
        "shared",
        big.sink("once", name="alerts").sink("stdout", on="driver"),
        rest.key_by("id").sink("bytesink", name="archive", parallelism=4),
    )


def test_two_sources_and_three_outputs_share_their_nodes() -> None:
    assert (
        two_sources_three_sinks().explain()
        == """\
pipeline shared: at-least-once

declared
  web [bytes]  x*  replayable, bounded
  >> [bytes] decode-json [id, total]  x*
  >> [any] merge [any]  x*
  ├─ >> [any] big [any]  x*  total > 100
  │  ├─ >> [any] alerts  x*  idempotent
  │  └─ >> [any] stdout  x1  on driver, append
  └─ >> [any] rest [any]  x*
     >> [any] key_by [any]  x*
     >> [any] archive  x4  idempotent
  shop [bytes]  x*  replayable, bounded
  >> [bytes] decode-shop [id, total]  x*
  >> [any] merge [any]  (above)

network: split and merge where parallelism, key or place changes
  web [bytes]  x*
  >> [bytes] decode-json [id, total]  x*
  >> [any] merge [any]  x*
  ├─ >> [any] big [any]  x*
  │  ├─ >> [any] alerts  x*
  │  └─ >> [any] merge-sort [any]  x1  on driver
  │     >> [any] stdout  x1  on driver
  └─ >> [any] rest [any]  x*
     >> [any] key_by [any]  x*
     >> [any] split [any]  x4 by key
     >> [any] archive  x4
  shop [bytes]  x*
  >> [bytes] decode-shop [id, total]  x*
  >> [any] merge [any]  (above)

coders: types brought together
  web [bytes]  x*
  >> [bytes] decode-json [id, total]  x*
  >> [id, total] merge [id, total]  x*
  ├─ >> [id, total] big [id, total]  x*
  │  ├─ >> [id, total] alerts  x*
  │  └─ >> [id, total] merge-sort [id, total]  x1  on driver
  │     >> [id, total] stdout  x1  on driver
  └─ >> [id, total] rest [id, total]  x*
     >> [id, total] key_by [id, total]  x*
     >> [id, total] split [id, total]  x4 by key
     >> [id, total] json-encode [bytes]  x4
     >> [bytes] archive  x4
  shop [bytes]  x*
  >> [bytes] decode-shop [id, total]  x*
  >> [id, total] merge [id, total]  (above)

fused: what runs where
  reader web [bytes]  x*
  reader >> [bytes] decode-json [id, total]  x*
  spark  >> [id, total] merge [id, total]  x*
  spark  ├─ >> [id, total] big [id, total]  x*
  writer │  ├─ >> [id, total] alerts  x*
  spark  │  └─ >> [id, total] merge-sort [id, total]  x1  on driver
  driver │     >> [id, total] stdout  x1  on driver
  spark  └─ >> [id, total] rest [id, total]  x*
  python    >> [id, total] key_by [id, total]  x*
  spark     >> [id, total] split [id, total]  x4 by key
  writer    >> [id, total] json-encode [bytes]  x4
  writer    >> [bytes] archive  x4
  reader shop [bytes]  x*
  reader >> [bytes] decode-shop [id, total]  x*
  spark  >> [id, total] merge [id, total]  (above)

notes
  stdout: at-least-once, a batch written again is there twice
"""
    )


def test_lines_stay_within_eighty_columns_however_many_columns_rows_have() -> None:
    columns = ", ".join(f"column_number_{n} string" for n in range(40))
    flow = (
        pen.pipeline("wide")
        .source("generator", rows=1)
        .decode("json", schema=columns)
        .where("length(column_number_1) > " + "1" * 60)
        .sink("stdout", on="driver")
    )
    assert max(len(line) for line in flow.explain().splitlines()) <= 80


def test_mermaid_draws_a_box_per_segment_and_types_on_the_arrows() -> None:
    drawn = worked_example().explain("mermaid")
    assert drawn.startswith("flowchart LR\n")
    assert drawn.count("subgraph") == 3
    assert 's0[("amqp-queue x1")]' in drawn
    assert '-->|"xml-node"|' in drawn


def test_json_tells_every_phase_and_segment() -> None:
    told = json.loads(worked_example().explain("json"))
    assert [phase["name"] for phase in told["phases"]] == [
        "declared",
        "network",
        "coders",
        "fused",
    ]
    assert [len(phase["stages"]) for phase in told["phases"]] == [3, 5, 7, 7]
    assert [segment["runs"] for segment in told["segments"]] == ["reader", "spark", "driver"]


def test_an_unknown_format_is_refused_with_a_suggestion() -> None:
    with pytest.raises(DeclareError, match="mermaid") as refused:
        worked_example().explain("mermaids")  # type: ignore[arg-type]
    assert refused.value.fix == "did you mean 'mermaid'?"
