"""Bytes to columns and back, in whole Arrow arrays."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import pyarrow as pa
from attrs import field, frozen

from penstock.contracts.options import Configured


@frozen
class RowError:
    """Why one input row could not be coded.

    Attributes:
        row: Its index in the input array.
        message: One sentence; never the payload itself.
        kind: The error's class name.
        ephemeral: A retry may help (a registry that does not answer).
    """

    row: int
    message: str
    kind: str = "CodecError"
    ephemeral: bool = False


@frozen
class Decoded:
    """What became of an array of values.

    Attributes:
        rows: The decoded columns, in the coder's schema.
        origin: For each output row the index of the input row it came from, rising (int32);
            None where output row i is input row i, which implies no errors.
        errors: One for each input row that could not be decoded; such a row gives no output.
    """

    rows: pa.RecordBatch
    origin: pa.Array | None = None
    errors: tuple[RowError, ...] = ()


@frozen
class Encoded:
    """What became of rows.

    Attributes:
        values: One value per input row; null where its encoding failed or the row is a tombstone.
        errors: One for each row that could not be encoded.
    """

    values: pa.Array
    errors: tuple[RowError, ...] = field(default=())


class Coder(Configured):
    """Turns a binary column into typed columns and back. Attrs-frozen options; picklable."""

    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns `decode` gives. On the driver at analysis; may ask a registry. COD-01.

        Raises:
            SchemaError: it cannot be known or has no mapping.
        """

    @abstractmethod
    def decode(self, values: pa.Array) -> Decoded:
        """Decode a binary array whole. On workers, often; must be thread-safe.

        A null value decodes to no row and no error (a tombstone has no columns). One bad record
        must not harm its neighbours (COD-02): it becomes a `RowError`.
        """

    @abstractmethod
    def encode(self, rows: pa.RecordBatch) -> Encoded:
        """Encode rows of the coder's schema, one value each. Extra columns are ignored."""

    def narrowed(self, columns: Sequence[str]) -> Coder:
        """The same coder that decodes only these columns; may return itself."""
        return self


class ObjectCoder(Configured):
    """Bytes to Python objects that live within one fused chain only (a parsed XML tree).

    Objects never cross a process; the analysis sees to it that they are rendered before.
    """

    type: str = ""
    """The name of the object type, for instance `xml-node`."""

    @abstractmethod
    def parse(self, values: pa.Array) -> tuple[list[object], tuple[RowError, ...]]:
        """One object per value (None where null or bad), and the errors by row."""

    @abstractmethod
    def render(self, objects: list[object]) -> Encoded:
        """One value per object; None gives null."""
