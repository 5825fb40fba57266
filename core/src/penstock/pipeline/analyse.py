"""From a declared graph to a plan: small passes, each a pure function."""

from __future__ import annotations

from attrs import evolve

from penstock.pipeline.graph import Graph
from penstock.pipeline.passes.checks import check
from penstock.pipeline.passes.coders import coders
from penstock.pipeline.passes.ends import ends, unbound
from penstock.pipeline.passes.fusion import fuse, through
from penstock.pipeline.passes.guarantees import guarantees
from penstock.pipeline.passes.letters import dead_letters
from penstock.pipeline.passes.letters import notes as letters_notes
from penstock.pipeline.passes.native import natives
from penstock.pipeline.passes.network import network
from penstock.pipeline.passes.originals import carried
from penstock.pipeline.passes.resolve import resolve
from penstock.pipeline.passes.staging import shared, staged
from penstock.pipeline.passes.unfold import unfold
from penstock.pipeline.plan import Phase, Plan

THROUGH = True
"""Whether a reader writes to the sink itself where nothing lies between them."""


def analyse(graph: Graph) -> Plan:
    """What will run, and where. Needs what the pipeline names installed; needs no Spark.

    Raises:
        DeclareError: a node's name or options cannot be understood.
        AnalyseError: the pipeline cannot work as declared.
    """
    check(graph)
    graph = unfold(graph)
    declared = resolve(graph)
    ends(graph, declared)
    letters = dead_letters(graph)
    kept, notes = guarantees(graph, declared)
    laid = network(declared)
    typed = coders(laid)
    between = shared(typed)
    fused, segments = fuse(typed, set(between))
    on_disk = staged(fused, between)
    whole = through(fused, segments, set(on_disk)) if THROUGH else None
    if whole is not None:
        fused = tuple(evolve(stage, runs="reader") for stage in fused)
    native = natives(fused, segments, whole)
    fused = tuple(evolve(s, runs="spark") if s.name in native else s for s in fused)
    phases = (
        Phase("declared", declared),
        Phase("network", laid),
        Phase("coders", typed),
        Phase("fused", fused),
    )
    notes += unbound(graph, fused) + letters_notes(letters) + _order(fused)
    reasons = [*between.items(), *on_disk.items()]
    notes += tuple(f"{name}: batches are staged, {why}" for name, why in reasons if why)
    notes += tuple(f"{name}: {why}" for name, why in native.items())
    return Plan(
        graph,
        fused,
        segments,
        kept,
        phases,
        notes,
        staged=frozenset(on_disk),
        shared=frozenset(between),
        dead_letters=letters,
        through=whole,
        native=frozenset(native),
        carried=carried(fused),
    )


def _order(stages: tuple) -> tuple[str, ...]:  # type: ignore[type-arg]
    several = [
        s.name for s in stages if s.kind == "source" and getattr(s.settings, "receivers", 1) > 1
    ]
    return tuple(f"{name}: several receivers give up the order across them" for name in several)
