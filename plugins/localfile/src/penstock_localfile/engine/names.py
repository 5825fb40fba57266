"""Hostile names: shown safely, joined safely, matched by glob."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from penstock.contracts.errors import OptionError, WriteError

LONGEST = 255
_GLOB = re.compile(rb"[*?\[{]")


class BadName(WriteError):
    """A file cannot get this name: the row that asks for it is refused, not its neighbours."""


def shown(path: bytes) -> str:
    """A path as text that names it alone: odd bytes escaped, a backslash doubled."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    if text is not None and text.isprintable() and "\\" not in text:
        return text
    decoded = path.replace(b"\\", b"\\\\").decode("utf-8", "surrogateescape")
    return "".join(_shown_character(c) for c in decoded)


def _shown_character(character: str) -> str:
    if character.isprintable():
        return character
    raw = character.encode("utf-8", "surrogateescape")
    return "".join(f"\\x{byte:02x}" for byte in raw)


def unshown(text: str) -> bytes:
    """The path that `shown` gave this text for."""
    raw = text.encode("utf-8")
    return re.sub(rb"\\(\\|x[0-9a-f]{2})", _unshown_match, raw)


def _unshown_match(match: re.Match[bytes]) -> bytes:
    code = match.group(1)
    return b"\\" if code == b"\\" else bytes([int(code[1:], 16)])


def safe(path: bytes) -> bytes:
    """The path, if it stays below its root.

    Raises:
        BadName: it is absolute, climbs out, is empty, holds NUL, or has a name over 255 bytes.
    """
    complaint = None
    names = path.split(b"/")
    if not path or b"\0" in path:
        complaint = "an empty name or one with NUL"
    elif path.startswith(b"/"):
        complaint = "an absolute path"
    elif any(name in (b"", b".", b"..") for name in names):
        complaint = "a path that is not plain"
    elif any(len(name) > LONGEST for name in names):
        complaint = "a name longer than 255 bytes"
    if complaint is not None:
        raise BadName(
            f"a file name is refused: {complaint}",
            expected="names below the root, joined by /",
            got=shown(path[:300]),
        )
    return path


def suffixed(path: bytes, suffix: bytes) -> bytes:
    """The path with a suffix; a name that gets too long is cut, and a hash tells it apart."""
    folder, cut, name = path.rpartition(b"/")
    if len(name) + len(suffix) <= LONGEST:
        return path + suffix
    tail = b"~" + hashlib.blake2b(name, digest_size=8).hexdigest().encode() + suffix
    end = LONGEST - len(tail)
    while end and name[end] & 0xC0 == 0x80:  # not within a character
        end -= 1
    return folder + cut + name[:end] + tail


def below(root: str, folder: str) -> str | None:
    """A folder as seen from a root, both plain and absolute; `.`: the same, None: elsewhere."""
    if folder == root:
        return "."
    inside = root.rstrip("/") + "/"
    return folder[len(inside) :] if folder.startswith(inside) else None


def hidden(name: bytes) -> bool:
    """Whether readers pass over a file or folder of this name, as Spark's do."""
    return name.startswith((b".", b"_"))


def divide(path: str) -> tuple[str, str]:
    """A path with a glob as (root without one, pattern below it); an empty pattern without one."""
    match = _GLOB.search(path.encode("utf-8", "surrogateescape"))
    if match is None:
        return path, ""
    head = path.encode("utf-8", "surrogateescape")[: match.start()]
    cut = head.rfind(b"/") + 1
    root = head[:cut].decode("utf-8", "surrogateescape")
    pattern = path.encode("utf-8", "surrogateescape")[cut:].decode("utf-8", "surrogateescape")
    return (root if root == "/" else root.rstrip("/")) or ".", pattern


@lru_cache(maxsize=64)
def matcher(pattern: str) -> re.Pattern[bytes]:
    """A glob as a regular expression over a relative path.

    `*` and `?` stay within a name, `**` crosses folders, `[a-z]`, `[!a-z]` and `{one,two}` work
    as in a shell.

    Raises:
        OptionError: a bracket or brace is not closed.
    """
    raw = pattern.encode("utf-8", "surrogateescape")
    out: list[bytes] = []
    at = 0
    depth = 0
    while at < len(raw):
        byte = raw[at : at + 1]
        if raw[at : at + 3] == b"**/":
            out.append(b"(?:[^/]+/)*")
            at += 3
            continue
        if raw[at : at + 2] == b"**":
            out.append(b".*")
            at += 2
            continue
        if byte == b"*":
            out.append(b"[^/]*")
        elif byte == b"?":
            # One character, which may be several bytes of UTF-8.
            out.append(rb"(?:[\x00-\x2e\x30-\x7f]|[\xc2-\xf4][\x80-\xbf]+|[\x80-\xff])")
        elif byte == b"[":
            close = raw.find(b"]", at + 2)
            if close < 0:
                raise _unclosed(pattern, "[")
            inside = raw[at + 1 : close].replace(b"\\", b"\\\\").replace(b"[", b"\\[")
            negated = inside[:1] in (b"!", b"^")
            out.append(b"[^/" + inside[1:] + b"]" if negated else b"[" + inside + b"]")
            at = close
        elif byte == b"{":
            depth += 1
            out.append(b"(?:")
        elif byte == b"}" and depth:
            depth -= 1
            out.append(b")")
        elif byte == b"," and depth:
            out.append(b"|")
        else:
            out.append(re.escape(byte))
        at += 1
    if depth:
        raise _unclosed(pattern, "{")
    try:
        return re.compile(b"(?s:" + b"".join(out) + rb")\Z")
    except re.error as error:
        raise OptionError(f"the pattern cannot be read: {error}", got=pattern) from None


def _unclosed(pattern: str, opened: str) -> OptionError:
    return OptionError(f"the pattern has a {opened} that is not closed", got=pattern)


def literal(name: str) -> str:
    """A pattern that matches exactly this name."""
    return re.sub(r"([*?\[{])", r"[\1]", name)
