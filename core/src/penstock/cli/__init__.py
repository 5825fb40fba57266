"""The command line."""

from penstock.cli.app import main

__all__ = ["main"]
