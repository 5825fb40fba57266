"""Parsing XML that nobody vouches for."""

from __future__ import annotations

import secrets
import threading
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from lxml import etree

from penstock.contracts.errors import CodecError, OptionError

_LOCAL = threading.local()
_LIMITS = {
    "resolve_entities": False,
    "load_dtd": False,
    "dtd_validation": False,
    "no_network": True,
    "huge_tree": False,
    "remove_comments": True,
    "remove_pis": True,
    "collect_ids": False,
}


def _parser() -> Any:
    """This thread's parser: no entities, no DTD, no network; libxml2's own limits stay on."""
    if not hasattr(_LOCAL, "parser"):
        _LOCAL.parser = etree.XMLParser(**_LIMITS)
    return _LOCAL.parser


class _Nothing:
    """Takes no part of a document: what remains of parsing is the check."""

    def close(self) -> None:
        """The end of a document."""


def _checker() -> Any:
    """This thread's parser that builds nothing, with the limits of the other one."""
    if not hasattr(_LOCAL, "checker"):
        _LOCAL.checker = etree.XMLParser(target=_Nothing(), **_LIMITS)
    return _LOCAL.checker


def sound(content: bytes) -> bool:
    """Whether this is well-formed between a start tag and its end, namespaces and all."""
    checker = _checker()
    try:
        etree.fromstring(b"<r>" + content + b"</r>", checker)
    except etree.XMLSyntaxError:
        return False
    # A parser that builds nothing raises no error for a wrong namespace.
    return not len(checker.error_log.filter_from_errors())


def parse(value: bytes) -> Any:
    """The root element of a document.

    Raises:
        CodecError: it is not well-formed, too deep, or declares a document type.
    """
    # Before the parser sees it: even an unused entity takes memory to declare.
    # In UTF-16 and UTF-32 its letters are the same ones, with zeros between.
    if b"<!DOCTYPE" in (value.replace(b"\0", b"") if b"\0" in value else value):
        raise CodecError("it declares a document type, which is refused")
    try:
        root = etree.fromstring(value, _parser())
    except etree.XMLSyntaxError as error:
        line, column = error.position
        raise CodecError(
            f"it is not well-formed XML (libxml2 error {error.code}, line {line}, column {column})"
        ) from None
    except ValueError:
        raise CodecError("it is not well-formed XML") from None
    if root is None:
        raise CodecError("it is not well-formed XML: there is no root element")
    if root.getroottree().docinfo.doctype:
        raise CodecError("it declares a document type, which is refused")
    return root


def parse_all(values: list[bytes]) -> list[Any] | None:
    """The root elements of many documents, parsed as one; None if they must be parsed alone.

    An element that nobody can guess follows each document. If these and the documents' roots take
    turns right under the common root, no document has reached into another.
    """
    name = f"g{secrets.token_hex(8)}"
    guard = f"<{name}/>".encode()
    try:
        common = etree.fromstring(b"<r>" + guard.join(values) + guard + b"</r>", _parser())
    except etree.XMLSyntaxError:
        return None
    found = list(common)
    if len(found) != 2 * len(values) or common.text is not None:
        return None
    roots = found[0::2]
    for root, mark in zip(roots, found[1::2], strict=True):
        if mark.tag != name or root.tag == name or root.tail or mark.tail:
            return None
    return roots


def plain(values: pa.Array) -> bool:
    """Whether documents can be parsed as one: UTF-8 that declares nothing and ends at once."""
    try:
        text = values.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    special = pc.match_substring_regex(text, r"<\?xml|<!DOCTYPE|<!--|<!\[CDATA\[|^\s|^$|\x{FEFF}")
    return not pc.any(special).as_py()


def xpath(text: str, namespaces: dict[str, str]) -> Any:
    """A compiled XPath expression.

    Raises:
        OptionError: it is none, or uses a prefix that is not declared.
    """
    try:
        compiled = etree.XPath(text, namespaces=namespaces or None)
        compiled(etree.Element("x"))
    except etree.XPathError as error:
        raise OptionError(
            f"the XPath cannot be used: {error}",
            expected="an XPath 1.0 expression whose prefixes are in namespaces",
            got=text,
        ) from None
    return compiled


def check_xpath(text: str) -> str | None:
    """An option's check: what is wrong with an expression, before prefixes are known."""
    try:
        etree.XPath(text)
    except etree.XPathSyntaxError as error:
        return f"must be an XPath 1.0 expression ({error})"
    return None
