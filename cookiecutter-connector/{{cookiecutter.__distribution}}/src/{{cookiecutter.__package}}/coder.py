"""The reference coder: web forms (`a=1&b=2`), as browsers send them.

CHANGE `schema`, `decode` and `encode`, over whole arrays.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

import pyarrow as pa
from penstock.contracts import Coder, Decoded, Encoded, RowError, option
from penstock.contracts import connector as configured


@configured
class {{ cookiecutter.__class }}Coder(Coder):
    """Fields of a web form as text columns; a field that is not there is null."""

    columns: list[str] = option(doc="The fields to take, in order.", example="id,name")

    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(name, pa.string()) for name in self.columns])

    def decode(self, values: pa.Array) -> Decoded:
        rows: list[dict[str, str | None]] = []
        origin: list[int] = []
        errors: list[RowError] = []
        for at, value in enumerate(values.to_pylist()):
            if value is None:
                continue
            try:
                fields = dict(_fields(value))
            except ValueError as error:
                errors.append(RowError(at, f"no web form: {type(error).__name__}"))
                continue
            rows.append({name: fields.get(name) for name in self.columns})
            origin.append(at)
        batch = pa.RecordBatch.from_pylist(rows, schema=self.schema())
        return Decoded(batch, pa.array(origin, pa.int32()), tuple(errors))

    def encode(self, rows: pa.RecordBatch) -> Encoded:
        records = rows.select(self.columns).to_pylist()
        values = [
            urlencode({name: text for name, text in row.items() if text is not None}).encode()
            for row in records
        ]
        return Encoded(pa.array(values, pa.binary()))


def _fields(value: bytes) -> list[tuple[str, str]]:
    text = value.decode("ascii")
    return parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), errors="strict")
