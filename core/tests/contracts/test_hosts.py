import pytest

from penstock.contracts.hosts import is_loopback


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.1", "::1"])
def test_names_and_addresses_of_this_machine(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "localhost.example.org", "10.0.0.1", "::2", "broker"])
def test_all_others_are_elsewhere(host):
    assert not is_loopback(host)
