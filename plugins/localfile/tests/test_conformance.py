"""localfile keeps the contracts."""

from penstock_localfile.conformance import TestLocalfile

__all__ = ["TestLocalfile"]
