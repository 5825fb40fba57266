"""Loads what all test folders share."""

pytest_plugins = ["tests.brokers.fixtures", "tests.faults.table"]
