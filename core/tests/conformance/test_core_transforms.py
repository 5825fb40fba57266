"""The transforms in the core pass their suite."""

from penstock.conformance.own.transforms import *  # noqa: F403
