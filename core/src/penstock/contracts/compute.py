"""Arrow's compute functions, imported when the first of them is used.

Declaring and explaining a pipeline computes nothing, and their import takes as long as all the
rest of it. `from penstock.contracts.compute import pc` in what is imported for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:

    class _Compute:
        def __getattr__(self, name: str) -> Any:
            import pyarrow.compute

            found = getattr(pyarrow.compute, name)
            setattr(self, name, found)
            return found

    pc = _Compute()

__all__ = ["pc"]
