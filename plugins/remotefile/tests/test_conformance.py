"""The suite, against a real OpenSSH server that it may kill."""

import pytest

from penstock_remotefile.conformance import TestRemotefile
from tests.brokers.suites import sshd as penstock_server

__all__ = ["TestRemotefile", "penstock_server"]
pytestmark = pytest.mark.server
