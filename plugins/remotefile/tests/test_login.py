import subprocess

import pytest

from penstock.contracts import Secret
from penstock.contracts.errors import ReadError
from penstock_remotefile.login import Login

paramiko = pytest.importorskip("paramiko")


def login(**given):
    plain = {
        "host": "files.example.org",
        "port": 22,
        "user": "me",
        "password": None,
        "private_key": None,
        "passphrase": None,
        "agent": False,
        "known_hosts": "/nothing",
        "fingerprint": None,
        "timeout": 1.0,
        "connections": 1,
    }
    return Login(**{**plain, **given})


def made_key(path, *options, phrase=""):
    wanted = ["ssh-keygen", "-q", "-f", str(path), "-N", phrase, *options]
    subprocess.run(wanted, check=True, stdin=subprocess.DEVNULL)
    return str(path)


class Asking:
    """A server that asks for several ways in."""

    def __init__(self, *asked):
        self.asked = list(asked)

    def is_authenticated(self):
        return not self.asked

    def _take(self, way):
        if way not in self.asked:
            raise paramiko.BadAuthenticationType("no", self.asked)
        self.asked.remove(way)
        return list(self.asked)

    def auth_publickey(self, user, key):
        return self._take("publickey")

    def auth_password(self, user, password):
        return self._take("password")


def test_a_server_may_ask_for_a_key_and_a_password(tmp_path):
    key = made_key(tmp_path / "key", "-t", "ed25519")
    both = login(private_key=key, password=Secret("secret"))
    both._authenticate(Asking("publickey", "password"))
    both._authenticate(Asking("password"))


def test_half_of_what_a_server_asks_for_does_not_let_one_in(tmp_path):
    key = made_key(tmp_path / "key", "-t", "ed25519")
    with pytest.raises(ReadError, match="does not let me in") as caught:
        login(private_key=key)._authenticate(Asking("publickey", "password"))
    assert "password" in str(caught.value)
    assert "is asked for as well" in str(caught.value)


def test_every_known_key_of_a_host_counts(tmp_path):
    keys, lines = [], ""
    for name in ("old", "new"):
        path = made_key(tmp_path / name, "-t", "ed25519")
        keys.append(paramiko.Ed25519Key.from_private_key_file(path))
        lines += f"files.example.org {keys[-1].get_name()} {keys[-1].get_base64()}\n"
    known = tmp_path / "known_hosts"
    known.write_text(lines)
    for key in keys:
        login(known_hosts=str(known))._verify(key)
    other = paramiko.Ed25519Key.from_private_key_file(made_key(tmp_path / "x", "-t", "ed25519"))
    with pytest.raises(ReadError, match="changed, and nothing was sent"):
        login(known_hosts=str(known))._verify(other)


@pytest.mark.parametrize("phrase", ["", "open sesame"])
@pytest.mark.parametrize("form", ["RFC4716", "PKCS8", "PEM"])
@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_a_key_is_read_in_each_of_its_forms(tmp_path, kind, form, phrase):
    path = made_key(tmp_path / "key", "-t", kind, "-m", form, phrase=phrase)
    key = login(private_key=path, passphrase=Secret(phrase or "not needed"))._load(path)
    assert key.get_base64() == (tmp_path / "key.pub").read_text().split()[1]
    if phrase:
        with pytest.raises(ReadError, match="private key cannot be read"):
            login(passphrase=Secret("another"))._load(path)


def test_a_certificate_beside_a_key_is_used(tmp_path):
    path = made_key(tmp_path / "key", "-t", "ed25519")
    authority = made_key(tmp_path / "ca", "-t", "ed25519")
    signing = ["ssh-keygen", "-q", "-s", authority, "-I", "me", "-n", "me", f"{path}.pub"]
    subprocess.run(signing, check=True)
    key = login()._load(path)
    assert key.public_blob is not None
    assert key.public_blob.key_type == "ssh-ed25519-cert-v01@openssh.com"
