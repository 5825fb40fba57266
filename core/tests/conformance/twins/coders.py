"""Broken coders."""

import threading

import pyarrow as pa
from attrs import evolve

from penstock.conformance.reference.form import FormCoder
from penstock.contracts import Decoded, Encoded, RowError, option
from penstock.contracts import connector as configured

CODERS = {}


def broken(clause):
    def register(cls):
        CODERS[clause] = cls
        return cls

    return register


@broken("COD-01")
class GivesOtherTypes(FormCoder):
    def decode(self, values):
        done = super().decode(values)
        rows = pa.RecordBatch.from_arrays(
            [column.cast(pa.large_string()) for column in done.rows.columns], names=self.columns
        )
        return evolve(done, rows=rows)


@broken("COD-02")
class OneForAll(FormCoder):
    def decode(self, values):
        done = super().decode(values)
        if not done.errors:
            return done
        errors = tuple(RowError(at, "a neighbour is bad") for at in range(len(values)))
        return Decoded(done.rows.slice(0, 0), pa.array([], pa.int32()), errors)


@broken("COD-03")
class Shouts(FormCoder):
    def encode(self, rows):
        values = super().encode(rows).values.to_pylist()
        return Encoded(pa.array([v.replace(b"e", b"E") for v in values], pa.binary()))


@broken("COD-04")
class FearsNulls(FormCoder):
    def decode(self, values):
        done = super().decode(values)
        nulls = [RowError(at, "null") for at, v in enumerate(values.to_pylist()) if v is None]
        return evolve(done, errors=(*done.errors, *nulls))


@broken("COD-05")
class KnowsOneVersion(FormCoder):
    def decode(self, values):
        done = super().decode(values)
        wrong = [
            RowError(at, "another number of fields")
            for at, v in enumerate(values.to_pylist())
            if v is not None and v.count(b"=") > len(self.columns)
        ]
        return evolve(done, errors=(*done.errors, *wrong))


@broken("COD-06")
class FallsOver(FormCoder):
    def decode(self, values):
        for value in values.to_pylist():
            if value is not None:
                value.decode("ascii")
        return super().decode(values)


SHARED = []
BARRIER = threading.Barrier(2)


@broken("COD-07")
class SharesItsBuffer(FormCoder):
    def decode(self, values):
        SHARED.clear()
        SHARED.extend(values.to_pylist())
        # Two threads that meet here have both filled the one buffer.
        if threading.current_thread() is not threading.main_thread():
            BARRIER.wait(timeout=20)
        return super().decode(pa.array(SHARED, pa.binary()))


@broken("COD-08")
class TellsAll(FormCoder):
    def decode(self, values):
        done = super().decode(values)
        told = [evolve(e, message=repr(values[e.row].as_py())) for e in done.errors]
        return evolve(done, errors=tuple(told))


@broken("COD-09")
class TakesAllColumns(FormCoder):
    def encode(self, rows):
        texts = [
            "&".join(f"{name}={value}" for name, value in row.items()).encode()
            for row in rows.to_pylist()
        ]
        return Encoded(pa.array(texts, pa.binary()))


@broken("COD-10")
class NeedsRows(FormCoder):
    def decode(self, values):
        values[0]
        return super().decode(values)


@broken("COD-11")
@configured
class SaysNothing(FormCoder):
    """Web forms."""

    speed: int = option(default=1, doc="x")


@broken("COD-12")
class NarrowsToOthers(FormCoder):
    def narrowed(self, columns):
        return Narrow(columns=list(self.columns))


class Narrow(FormCoder):
    def decode(self, values):
        done = super().decode(values)
        blank = [pa.nulls(done.rows.num_rows, pa.string()) for _ in self.columns]
        return evolve(done, rows=pa.RecordBatch.from_arrays(blank, schema=self.schema()))
