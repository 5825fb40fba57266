"""The suite for transforms: what a transform's author subclasses."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from attrs import define

from penstock import registry
from penstock.conformance.clauses import clause, clause_of, clauses_of
from penstock.conformance.gate import bad_waivers
from penstock.conformance.plugin import REASON
from penstock.contracts import Columns, Transform
from penstock.contracts.envelope import PEN_FIELD, pen, stamps
from penstock.contracts.errors import OptionError
from penstock.contracts.options import parse, specs


@define(kw_only=True)
class TransformCase:
    """One way to set a transform up.

    Attributes:
        options: Its options.
        data: What it is given: an Arrow batch without `_pen`, or a list of objects.
        wanted: What it must give for that, as plain Python: a list of rows or objects.
    """

    options: Mapping[str, Any]
    data: pa.RecordBatch | Sequence[object]
    wanted: Sequence[object]


class TransformRig:
    """A transform and its case."""

    def __init__(self, cls: type[Transform], case: TransformCase) -> None:
        self.cls = cls
        self.case = case
        self.transform = parse(cls, case.options)

    @property
    def data(self) -> Any:
        """The case's data; rows with the `_pen` column they have in a pipeline."""
        if not isinstance(self.case.data, pa.RecordBatch):
            return list(self.case.data)
        count = self.case.data.num_rows
        where = stamps("conformance", "0", pa.array(range(count)))
        return self.case.data.append_column(PEN_FIELD, pen(count, stamp=where))

    def applied(self, data: Any = None) -> tuple[Any, list[int] | None]:
        """The output, and for each output row its input row where it says so."""
        done = self.transform.apply(self.data if data is None else data)
        if isinstance(done, tuple):
            return done[0], [int(at) for at in pa.array(done[1]).to_pylist()]
        return done, None


class TransformSuite:
    """Subclass it, name the transform, and give a fixture `case`: a `TransformCase`."""

    transform: ClassVar[str | type[Transform]]
    waivers: ClassVar[Mapping[str, str]] = {}

    @pytest.fixture
    def case(self) -> TransformCase:
        raise AssertionError("give the suite a fixture `case` that returns a TransformCase")

    @classmethod
    def found(cls) -> type[Transform]:
        return (
            registry.transform(cls.transform) if isinstance(cls.transform, str) else cls.transform
        )

    @pytest.fixture(autouse=True)
    def _gate(self, request: pytest.FixtureRequest) -> None:
        each = clause_of(request.function)
        if each is None:
            return
        wrong = bad_waivers(self.waivers, {known.id for known in clauses_of(type(self))})
        assert not wrong, "; ".join(wrong)
        if each.id in self.waivers:
            request.node.stash[REASON] = (True, self.waivers[each.id])
            pytest.skip(f"{each.id}: waived: {self.waivers[each.id]}")

    @pytest.fixture
    def rig(self, case: TransformCase) -> TransformRig:
        return TransformRig(self.found(), case)

    @clause("TRF-01", "it gives what it should")
    def test_trf_01_result(self, rig: TransformRig) -> None:
        """For the case's data the output is what the case wants, row by row."""
        out, _ = rig.applied()
        rows = out.drop_columns(["_pen"]).to_pylist() if isinstance(out, pa.RecordBatch) else out
        assert rows, "nothing came out: the case proves nothing"
        assert list(rows) == list(rig.case.wanted)

    @clause("TRF-02", "its types are pure and true")
    def test_trf_02_types(self, rig: TransformRig) -> None:
        """`wants` and `gives` answer the same each time, and rows come out in the schema that
        `gives` says for the schema that went in."""
        wants = rig.transform.wants()
        assert wants == rig.transform.wants()
        data = rig.data
        if not isinstance(data, pa.RecordBatch):
            assert rig.transform.gives(wants) == rig.transform.gives(wants)
            return
        given = Columns(data.schema)
        says = rig.transform.gives(given)
        assert says == rig.transform.gives(given), "gives answers differently each time"
        out, _ = rig.applied()
        if isinstance(says, Columns) and says.schema is not None:
            own = [f for f in says.schema if f.name != "_pen"]
            came = [f for f in out.schema if f.name != "_pen"]
            assert pa.schema(own).equals(pa.schema(came)), f"says {own}, gives {came}"

    @clause("TRF-03", "the `_pen` column is kept")
    def test_trf_03_pen(self, rig: TransformRig) -> None:
        """Rows come out with `_pen`; each output row carries the stamp of the input row it came
        from, so that it can be ordered, named and replayed."""
        data = rig.data
        if not isinstance(data, pa.RecordBatch):
            pytest.skip("TRF-03: it works on objects; the core keeps `_pen` for them")
        out, origin = rig.applied()
        assert "_pen" in out.schema.names, "the `_pen` column is gone"
        rows = list(range(data.num_rows)) if origin is None else origin
        assert out.num_rows == len(rows), f"{out.num_rows} rows, {len(rows)} origins"
        found = [row["stamp"]["position"] for row in out.column("_pen").to_pylist()]
        assert found == rows, "a row carries another row's stamp"

    @clause("TRF-04", "the same input gives the same output")
    def test_trf_04_deterministic(self, rig: TransformRig) -> None:
        """A transform that is declared deterministic gives equal output when applied again: a
        replayed batch must be the same batch. One that is not must say so."""
        if not rig.transform.deterministic:
            pytest.skip("TRF-04: it is declared not to be deterministic; its batches are staged")
        first, second = rig.applied(), rig.applied()
        assert first == second or first[0].equals(second[0]), "it gave another output"

    @clause("TRF-05", "each row is treated alone")
    def test_trf_05_alone(self, rig: TransformRig) -> None:
        """Applied row by row it gives the rows it gives for the whole: batch borders are Spark's
        business, and after an error the core looks for the guilty row that way."""
        data = rig.data
        whole, _ = rig.applied()
        single: list[Any] = []
        for at in range(data.num_rows if isinstance(data, pa.RecordBatch) else len(data)):
            piece = data.slice(at, 1) if isinstance(data, pa.RecordBatch) else [data[at]]
            out, _ = rig.applied(piece)
            single += out.to_pylist() if isinstance(out, pa.RecordBatch) else out
        assert single == (whole.to_pylist() if isinstance(whole, pa.RecordBatch) else list(whole))

    @clause("TRF-06", "nothing in, nothing out")
    def test_trf_06_empty(self, rig: TransformRig) -> None:
        """No rows give no rows, of the same schema as ever."""
        data = rig.data
        if isinstance(data, pa.RecordBatch):
            whole, _ = rig.applied()
            out, _ = rig.applied(data.slice(0, 0))
            assert out.num_rows == 0
            assert out.schema.equals(whole.schema), "an empty batch has another schema"
        else:
            assert rig.applied([])[0] == []

    @clause("TRF-07", "a transform is a value: documented, picklable, strict")
    def test_trf_07_value(self, rig: TransformRig) -> None:
        """Each option is documented, an unknown one is refused, and a pickled transform is equal
        and does the same, also after it was used."""
        for spec in specs(rig.cls):
            assert len(spec.doc.split()) >= 2, f"{spec.name} is not documented"
        with pytest.raises(OptionError):
            parse(rig.cls, {**rig.case.options, "surely_unknown": 1})
        before = rig.applied()
        again: Transform = pickle.loads(pickle.dumps(rig.transform))
        assert again == rig.transform, "it came back unequal"
        after = TransformRig(rig.cls, rig.case)
        after.transform = again
        out = after.applied()
        assert out == before or out[0].equals(before[0])
