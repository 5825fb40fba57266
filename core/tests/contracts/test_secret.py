import logging
import pickle

import pytest

from penstock.contracts import Secret
from penstock.contracts.errors import OptionError


@pytest.mark.parametrize("show", [repr, str, "{}".format, "%s".__mod__, "{!r:>40}".format])
def test_a_secret_never_prints(show):
    assert "canary" not in show(Secret("canary"))


def test_a_secret_never_reaches_a_log(caplog):
    with caplog.at_level(logging.INFO):
        logging.getLogger("x").info("connecting with %s and %r", Secret("canary"), Secret("canary"))
    assert "canary" not in caplog.text


def test_a_reference_is_resolved_where_it_is_revealed(monkeypatch):
    secret = pickle.loads(pickle.dumps(Secret("${env:PUMP_PASSWORD}")))
    monkeypatch.setenv("PUMP_PASSWORD", "canary")
    assert secret.reveal() == "canary"
    assert secret.reference == "${env:PUMP_PASSWORD}"


def test_a_file_reference_that_cannot_be_read_is_an_option_error(tmp_path):
    with pytest.raises(OptionError, match="cannot be read"):
        Secret(f"${{file:{tmp_path}/absent}}").reveal()


def test_only_text_can_be_secret():
    with pytest.raises(OptionError, match="must be text"):
        Secret(5)
