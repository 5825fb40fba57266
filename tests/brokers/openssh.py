"""OpenSSH's sshd with SFTP, for the user that runs the tests, by public key."""

import getpass
import os
import socket
from pathlib import Path

from tests.brokers.ports import free_port
from tests.brokers.server import Server, program

CONFIGURATION = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
PidFile {folder}/pid
AuthorizedKeysFile {folder}/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
{further}
"""


class OpenSSH(Server):
    """An SFTP server. `files` is an empty folder for its users; paths are those of this machine.

    Args:
        settings: further lines for sshd_config.
    """

    name = "sshd"
    patience = 20.0

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        super().__init__()
        self.settings = settings or {}
        self.port = free_port()
        self.user = getpass.getuser()
        self.files = self.folder / "files"
        self.private_key = self.folder / "user_key"
        self.known_hosts = self.folder / "known_hosts"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def host_key(self) -> str:
        """The server's public key, as one line of an authorized_keys file."""
        return (self.folder / "host_key.pub").read_text().strip()

    def prepare(self) -> None:
        self.files.mkdir()
        self.private_key.parent.mkdir(exist_ok=True)
        self._generate(self.private_key)
        public = self.private_key.with_suffix(".pub").read_text()
        (self.folder / "authorized_keys").write_text(public)
        self.change_host_key()
        further = "\n".join(f"{name} {value}" for name, value in self.settings.items())
        text = CONFIGURATION.format(port=self.port, folder=self.folder, further=further)
        (self.folder / "sshd_config").write_text(text)

    def launch(self) -> None:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        config = str(self.folder / "sshd_config")
        self.spawn([program("sshd", "openssh-server"), "-D", "-e", "-f", config])

    def ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                return connection.recv(64).startswith(b"SSH-2.0-")
        except OSError:
            return False

    def change_host_key(self, *, known: bool = True) -> None:
        """Make a new host key, in force after `restart`; `known_hosts` follows unless told not to."""
        for old in self.folder.glob("host_key*"):
            old.unlink()
        self._generate(self.folder / "host_key")
        if known:
            kind, key = self.host_key.split()[:2]
            self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {kind} {key}\n")

    def encrypt_key(self, passphrase: str) -> None:
        """Protect the user's key, which has no passphrase at first."""
        keygen = program("ssh-keygen", "openssh-client")
        key = str(self.private_key)
        self.run([keygen, "-q", "-p", "-P", "", "-N", passphrase, "-f", key])

    def _generate(self, path: Path) -> None:
        keygen = program("ssh-keygen", "openssh-client")
        self.run([keygen, "-q", "-t", "ed25519", "-N", "", "-C", "penstock", "-f", str(path)])
