"""Broken transforms."""

import os

import pyarrow as pa

from penstock.conformance.reference.mask import Mask
from penstock.contracts import Columns, option
from penstock.contracts import connector as configured

TRANSFORMS = {}


def broken(clause):
    def register(cls):
        TRANSFORMS[clause] = cls
        return cls

    return register


def hidden(rows, texts):
    at = rows.schema.get_field_index("mail")
    return rows.set_column(at, "mail", pa.array(texts, pa.string()))


@broken("TRF-01")
class HidesNothing(Mask):
    def apply(self, data):
        return data


@broken("TRF-02")
class SaysNumbers(Mask):
    def gives(self, input):
        at = input.schema.get_field_index(self.column)
        return Columns(input.schema.set(at, pa.field(self.column, pa.int64())))


@broken("TRF-03")
class DropsPen(Mask):
    def apply(self, data):
        rows, origin = super().apply(data)
        return rows.drop_columns(["_pen"]), origin


@broken("TRF-04")
class Random(Mask):
    def apply(self, data):
        rows, origin = super().apply(data)
        return hidden(rows, [os.urandom(4).hex() for _ in range(rows.num_rows)]), origin


@broken("TRF-05")
class Counts(Mask):
    def apply(self, data):
        rows, origin = super().apply(data)
        return hidden(rows, [str(at) for at in range(rows.num_rows)]), origin


@broken("TRF-06")
class NeedsRows(Mask):
    def apply(self, data):
        data.column(0)[0]
        return super().apply(data)


@broken("TRF-07")
@configured
class SaysNothing(Mask):
    """Hides a column."""

    speed: int = option(default=1, doc="x")
