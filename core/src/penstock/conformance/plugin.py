"""The pytest plugin that comes with `penstock[conformance]`."""

from __future__ import annotations

import random

import pytest

SEED = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("penstock").addoption(
        "--penstock-seed",
        type=int,
        default=None,
        help="seed of all generated test data; printed in the header of every run",
    )


def pytest_configure(config: pytest.Config) -> None:
    given = config.getoption("--penstock-seed")
    config.stash[SEED] = random.SystemRandom().randrange(2**32) if given is None else given


def pytest_report_header(config: pytest.Config) -> str:
    return f"penstock seed: {config.stash[SEED]} (repeat with --penstock-seed={config.stash[SEED]})"


@pytest.fixture(scope="session")
def penstock_seed(request: pytest.FixtureRequest) -> int:
    """The seed this run's data comes from."""
    return request.config.stash[SEED]
