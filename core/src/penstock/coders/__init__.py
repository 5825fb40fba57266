"""Bytes to columns and back: what needs no further dependency, and the rest behind extras."""
