"""Deliberately wrong connectors: each must fail at least the clause it is named for."""
