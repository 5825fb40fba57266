"""The suite for coders: what a coder's author subclasses."""

from __future__ import annotations

import pickle
import random
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from attrs import define

from penstock import registry
from penstock.conformance.clauses import clause, clause_of, clauses_of
from penstock.conformance.gate import bad_waivers
from penstock.conformance.plugin import REASON
from penstock.conformance.random_rows import random_rows
from penstock.contracts import Coder, Decoded
from penstock.contracts.envelope import spark_form
from penstock.contracts.errors import OptionError
from penstock.contracts.options import parse, specs

ROWS = 200
SECONDS = 5.0
BYTES = 50 * 2**20


@define(kw_only=True)
class CoderCase:
    """One way to set a coder up.

    Attributes:
        options: Its options.
        rows: Makes `count` random rows of its schema; left out, any values of its types.
        bad: Values it must refuse. Empty only where every value is good, as for plain bytes.
        hostile: Values made to hurt: deep, huge, endless, half.
        older, newer: Options of an older and a newer schema, where schemas can evolve.
        told: The options of a reader that must be told the writer's: from both of them.
        nulls: The share of null fields in random rows; 0 where the format has none.
    """

    options: Mapping[str, Any]
    rows: Callable[[int, random.Random], pa.RecordBatch] | None = None
    bad: Sequence[bytes] = ()
    hostile: Sequence[bytes] = ()
    older: Mapping[str, Any] | None = None
    newer: Mapping[str, Any] | None = None
    told: Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]] | None = None
    nulls: float = 0.15


class CoderRig:
    """A coder and its case."""

    def __init__(self, cls: type[Coder], case: CoderCase, seed: int) -> None:
        self.cls = cls
        self.case = case
        self.chance = random.Random(seed)
        self.coder = parse(cls, case.options)

    def rows(self, count: int = ROWS, coder: Coder | None = None) -> pa.RecordBatch:
        if self.case.rows is not None and coder is None:
            return self.case.rows(count, self.chance)
        return random_rows((coder or self.coder).schema(), count, self.chance, self.case.nulls)

    def values(self, rows: pa.RecordBatch) -> pa.Array:
        encoded = self.coder.encode(rows)
        assert not encoded.errors, f"good rows were not encoded: {encoded.errors[:3]}"
        assert len(encoded.values) == rows.num_rows, "encode gave another number of values"
        return encoded.values


class CoderSuite:
    """Subclass it, name the coder, and give a fixture `case` that returns a `CoderCase`."""

    coder: ClassVar[str | type[Coder]]
    waivers: ClassVar[Mapping[str, str]] = {}

    @pytest.fixture
    def case(self) -> CoderCase:
        raise AssertionError("give the suite a fixture `case` that returns a CoderCase")

    @classmethod
    def found(cls) -> type[Coder]:
        found = registry.coder(cls.coder) if isinstance(cls.coder, str) else cls.coder
        assert issubclass(found, Coder), f"{found} is no Coder"
        return found

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
    def rig(self, case: CoderCase, penstock_seed: int) -> CoderRig:
        return CoderRig(self.found(), case, penstock_seed)

    @clause("COD-01", "the schema is known beforehand, and true")
    def test_cod_01_schema(self, rig: CoderRig) -> None:
        """`schema()` says which columns `decode` gives, in types that Spark has; what `decode`
        returns has exactly that schema, and asking twice gives the same."""
        schema = rig.coder.schema()
        assert schema.equals(rig.coder.schema())
        assert schema.equals(spark_form(schema)), f"not as Spark wants it: {schema}"
        decoded = rig.coder.decode(rig.values(rig.rows()))
        assert decoded.rows.num_rows > 0, "nothing was decoded"
        assert decoded.rows.schema.equals(schema), f"said {schema}, gave {decoded.rows.schema}"

    @clause("COD-02", "one bad record does not harm its neighbours")
    def test_cod_02_neighbours(self, rig: CoderRig) -> None:
        """Bad values among good ones become one `RowError` each, by row; every good one is
        decoded as if they were not there, and `origin` says which row it came from."""
        good = rig.values(rig.rows(30)).to_pylist()
        if not rig.case.bad:
            noise = pa.array([rig.chance.randbytes(n % 50) for n in range(100)], pa.binary())
            errors = rig.coder.decode(noise).errors
            assert not errors, f"the case says no value is bad, but: {errors[0]}"
            return
        alone = rig.coder.decode(pa.array(good, pa.binary())).rows
        mixed, wanted = [], []
        for at, value in enumerate(good):
            mixed.append(value)
            if at % 3 == 1:
                wanted.append(len(mixed))
                mixed.append(rig.case.bad[at % len(rig.case.bad)])
        decoded = rig.coder.decode(pa.array(mixed, pa.binary()))
        assert [error.row for error in decoded.errors] == wanted, "other rows were refused"
        assert decoded.rows.equals(alone), "a neighbour of a bad record was decoded otherwise"
        assert decoded.origin is not None, "errors without origin: the rows cannot be told apart"
        rows = decoded.origin.to_pylist()
        assert rows == sorted(rows), "origin does not rise"
        assert not set(rows) & set(wanted), "a bad row has output"

    @clause("COD-03", "round trip")
    def test_cod_03_round_trip(self, rig: CoderRig) -> None:
        """Random rows of the schema, encoded and decoded, come back equal; the seed is printed.
        Ten draws, so that a rare value has its chance."""
        for draw in range(10):
            rows = rig.rows()
            decoded = rig.coder.decode(rig.values(rows))
            assert not decoded.errors, f"draw {draw}: {decoded.errors[0]}"
            assert rows.num_rows > 0
            back = decoded.rows
            if not back.equals(rows):
                sides = zip(rows.to_pylist(), back.to_pylist(), strict=False)
                raise AssertionError(next((f"{a} became {b}" for a, b in sides if a != b), "rows"))

    @clause("COD-04", "a null value is a tombstone: no row, no error")
    def test_cod_04_null(self, rig: CoderRig) -> None:
        """Null values among others give neither rows nor errors."""
        good = rig.values(rig.rows(3)).to_pylist()
        decoded = rig.coder.decode(pa.array([None, *good, None], pa.binary()))
        plain = rig.coder.decode(pa.array(good, pa.binary()))
        assert not decoded.errors, f"a null became an error: {decoded.errors[0]}"
        assert decoded.rows.equals(plain.rows), "a null became a row"
        assert decoded.origin is not None, "rows are fewer than values: origin is needed"
        assert set(decoded.origin.to_pylist()) <= {1, 2, 3}

    @clause("COD-05", "schemas evolve, forward and backward")
    def test_cod_05_evolution(self, rig: CoderRig) -> None:
        """Values written with an older schema are read with a newer one and the other way round:
        the columns both have keep their values. Tried where the case names two schemas."""
        if rig.case.older is None or rig.case.newer is None:
            pytest.skip("COD-05: the case names no older and newer schema")
        older, newer = rig.case.older, rig.case.newer
        for writes, reads in ((older, newer), (newer, older)):
            writer = parse(rig.cls, writes)
            reader = parse(
                rig.cls, reads if rig.case.told is None else rig.case.told(reads, writes)
            )
            rows = random_rows(writer.schema(), 50, rig.chance, rig.case.nulls)
            written = writer.encode(rows)
            assert not written.errors, f"it does not write its own: {written.errors[0]}"
            decoded = reader.decode(written.values)
            assert not decoded.errors, f"it does not read the other: {decoded.errors[0]}"
            assert decoded.rows.num_rows == 50
            shared = [n for n in writer.schema().names if n in reader.schema().names]
            assert shared, "the two schemas share no column"
            for name in shared:
                assert decoded.rows.column(name).equals(
                    rows.column(name).cast(reader.schema().field(name).type)
                ), f"the column {name} changed"

    @clause("COD-06", "hostile input is bounded in time and memory")
    def test_cod_06_hostile(self, rig: CoderRig) -> None:
        """Each hostile value of the case, and random noise, is decoded or refused by row within 5
        seconds and 50 MB of Python memory: never a crash, never another exception."""
        noise = [rig.chance.randbytes(rig.chance.randint(0, 300)) for _ in range(50)]
        good = rig.values(rig.rows(5)).to_pylist()
        cut = [value[: len(value) // 2] for value in good if value]
        for value in [*rig.case.hostile, *noise, *cut]:
            tracemalloc.start()
            began = time.monotonic()
            try:
                decoded = rig.coder.decode(pa.array([value], pa.binary()))
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            took = time.monotonic() - began
            assert took < SECONDS, f"{value[:40]!r} took {took:.1f} s"
            assert peak - len(value) < BYTES, f"{value[:40]!r} took {peak} bytes"
            assert all(error.message for error in decoded.errors)

    @clause("COD-07", "decoding is safe from several threads")
    def test_cod_07_threads(self, rig: CoderRig) -> None:
        """Eight threads decode through one coder at a time; each gets what it would get alone."""
        work = [rig.values(rig.rows(50)) for _ in range(16)]
        alone = [rig.coder.decode(values).rows for values in work]
        with ThreadPoolExecutor(8) as pool:
            together: list[Decoded] = list(pool.map(rig.coder.decode, work))
        for one, other in zip(alone, together, strict=True):
            assert one.equals(other.rows), "threads disturb each other"

    @clause("COD-08", "an error never repeats the payload")
    def test_cod_08_errors(self, rig: CoderRig) -> None:
        """A refused value leaves its sentence and its kind, not its content: payloads may be
        private, and errors are logged."""
        canary = b"canary-7f3b1c9e"
        tried = [value + canary for value in rig.case.bad] + [canary + v for v in rig.case.bad]
        for error in rig.coder.decode(pa.array(tried, pa.binary())).errors:
            assert error.kind, "an error without a kind"
            assert canary.decode() not in error.message, f"it repeats the payload: {error.message}"

    @clause("COD-09", "encoding ignores extra columns and gives one value per row")
    def test_cod_09_encode(self, rig: CoderRig) -> None:
        """Rows with columns beyond the schema encode as if they had none; one value per row."""
        rows = rig.rows(20)
        extra = rows.append_column("surely_extra", pa.array(range(20)))
        plain = rig.coder.encode(rows).values
        assert len(plain) == rows.num_rows, f"{rows.num_rows} rows gave {len(plain)} values"
        assert rig.coder.encode(extra).values.equals(plain), "an extra column changed the values"

    @clause("COD-10", "nothing in, nothing out")
    def test_cod_10_empty(self, rig: CoderRig) -> None:
        """An empty array decodes to no rows of the right schema, and no rows encode to none."""
        decoded = rig.coder.decode(pa.array([], pa.binary()))
        assert decoded.rows.num_rows == 0
        assert decoded.rows.schema.equals(rig.coder.schema())
        assert len(rig.coder.encode(decoded.rows).values) == 0

    @clause("COD-11", "a coder is a value: documented, picklable, strict")
    def test_cod_11_value(self, rig: CoderRig) -> None:
        """Each option is documented, an unknown one is refused, and a pickled coder decodes as
        the first one does, also after it was used."""
        for spec in specs(rig.cls):
            assert len(spec.doc.split()) >= 2, f"{spec.name} is not documented"
        with pytest.raises(OptionError):
            parse(rig.cls, {**rig.case.options, "surely_unknown": 1})
        values = rig.values(rig.rows(20))
        again: Coder = pickle.loads(pickle.dumps(rig.coder))
        assert again.decode(values).rows.equals(rig.coder.decode(values).rows)

    @clause("COD-12", "narrowed, it decodes the same columns")
    def test_cod_12_narrowed(self, rig: CoderRig) -> None:
        """`narrowed` to some columns gives these columns with the values they had, or the coder
        itself."""
        names = rig.coder.schema().names[:1]
        values = rig.values(rig.rows(20))
        whole, part = rig.coder.decode(values).rows, rig.coder.narrowed(names).decode(values).rows
        for name in names:
            assert part.column(name).equals(whole.column(name)), f"{name} differs when narrowed"
