"""Figures: each module measures us against a peer in the same run, side by side.

`tox run -e bench -- NAME` runs `tests/benchmarks/NAME.py`, whose `main(rows)` prints one JSON
line per row: `{"bench": ..., "ours": ..., "peer": ..., "ratio": ...}`. A row's name after NAME
runs that row alone.
"""
