"""The connectors in the core pass the suite."""

from penstock.conformance.own.connectors import *  # noqa: F403
