"""The reference transform: hides a column, and drops the rows that lack it if asked.

CHANGE the options, `gives` and `apply`.
"""

from __future__ import annotations

import hashlib

import pyarrow as pa
from penstock.contracts import Columns, Transform, Type, option
from penstock.contracts import connector as configured
from penstock.contracts.errors import TypeMismatchError


@configured
class {{ cookiecutter.__class }}(Transform):
    """Replaces the text of a column by a short digest of it."""

    column: str = option(doc="The text column to hide.", example="email")
    drop_missing: bool = option(default=False, doc="Drop rows in which the column is null.")

    def wants(self) -> Type:
        return Columns()

    def gives(self, input: Type) -> Type:
        if isinstance(input, Columns) and input.schema is not None:
            if self.column not in input.schema.names:
                raise TypeMismatchError(
                    f"there is no column {self.column}", got=", ".join(input.schema.names)
                )
            index = input.schema.get_field_index(self.column)
            return Columns(input.schema.set(index, pa.field(self.column, pa.string())))
        return input

    def apply(self, data: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array]:
        texts = data.column(self.column).to_pylist()
        kept = [at for at, text in enumerate(texts) if text is not None or not self.drop_missing]
        hidden = [None if text is None else _digest(text) for text in texts]
        index = data.schema.get_field_index(self.column)
        columns = list(data.columns)
        columns[index] = pa.array(hidden, pa.string())
        schema = data.schema.set(index, pa.field(self.column, pa.string()))
        rows = pa.RecordBatch.from_arrays(columns, schema=schema)
        origin = pa.array(kept, pa.int32())
        return rows.take(origin), origin


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
