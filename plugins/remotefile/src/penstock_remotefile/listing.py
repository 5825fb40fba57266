"""Looking at folders by SFTP, whatever bytes their names are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import paramiko


def listed(
    sftp: paramiko.SFTPClient, folder: bytes
) -> list[tuple[bytes, paramiko.SFTPAttributes]] | None:
    """Names and attributes in a folder; None if it is missing.

    paramiko's own listing fails as a whole on one name that is not UTF-8.
    """
    from paramiko.sftp import CMD_CLOSE, CMD_HANDLE, CMD_NAME, CMD_OPENDIR, CMD_READDIR
    from paramiko.sftp_attr import SFTPAttributes

    try:
        kind, message = sftp._request(CMD_OPENDIR, folder)
    except FileNotFoundError:
        return None
    if kind != CMD_HANDLE:
        raise OSError("the server did not open the folder")
    handle = message.get_binary()
    found = []
    try:
        while True:
            try:
                kind, message = sftp._request(CMD_READDIR, handle)
            except EOFError:
                break
            if kind != CMD_NAME:
                raise OSError("the server did not list the folder")
            for _ in range(message.get_int()):
                name = message.get_binary()
                long_name = message.get_binary()
                attributes = SFTPAttributes._from_msg(message, "", long_name)
                if name not in (b".", b"..") and b"/" not in name and b"\0" not in name:
                    found.append((name, attributes))
    finally:
        sftp._request(CMD_CLOSE, handle)
    return found


def resolved(sftp: paramiko.SFTPClient, place: bytes) -> bytes:
    """A path with its links followed; paramiko's own call fails where that is no UTF-8."""
    from paramiko.sftp import CMD_NAME, CMD_REALPATH

    kind, message = sftp._request(CMD_REALPATH, place)
    if kind != CMD_NAME or message.get_int() != 1:
        raise OSError("the server did not resolve the path")
    return bytes(message.get_binary())
