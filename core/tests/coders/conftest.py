"""What the coders' tests share. Property tests are bounded by their examples, not the clock."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from core.tests.coders.registry_server import RegistryServer, running

settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    """A Schema Registry in this process."""
    with running() as server:
        yield server
