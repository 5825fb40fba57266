"""A list of URLs as a storage that can be read."""

from __future__ import annotations

import http.client
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate, parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from attrs import frozen

from penstock.contracts import Secret
from penstock.contracts.errors import DataLossError, EphemeralReadError, ReadError
from penstock_localfile.engine.storage import Entry, Readable, Skip, Storage

_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_LATER = {408, 425, 429, 500, 502, 503, 504}


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only to the same host, and never from https to http."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, new: str
    ) -> Any:
        old_parts, new_parts = urlsplit(req.full_url), urlsplit(new)
        same = old_parts.netloc == new_parts.netloc
        downgrade = old_parts.scheme == "https" and new_parts.scheme != "https"
        if not same or downgrade:
            raise ReadError(
                "the server sends us to another host, which is refused",
                expected=old_parts.netloc,
                got=f"{new_parts.scheme}://{new_parts.netloc}",
                fix="give the other URL itself, if it is to be trusted",
            )
        return super().redirect_request(req, fp, code, msg, headers, new)


@frozen
class HttpStorage(Storage):
    """Files by their URLs; a path is a URL."""

    urls: tuple[str, ...]
    headers: tuple[tuple[str, str | Secret], ...]
    timeout: float
    retries: int

    @property
    def origin(self) -> str:
        """The part of a stamp names the URL; the origin only the way."""
        return "http"

    def walk(
        self, below: bytes = b"", *, recursive: bool = True, skip: Skip | None = None
    ) -> Iterator[Entry]:
        """The URLs, with what the server says of them."""
        for url in self.urls:
            entry = self.stat(url.encode())
            if entry is None:
                raise ReadError("there is nothing at this URL", got=url)
            yield entry

    def stat(self, path: bytes) -> Entry | None:
        """What the server says of one URL."""
        try:
            answer = self.ask(path, "HEAD")
        except DataLossError:
            return None
        with answer:
            size = answer.headers.get("Content-Length")
            if size is None:
                raise ReadError(
                    "the server does not tell the size, so a short file could not be told",
                    expected="a Content-Length header",
                    got=path.decode(),
                )
            tag = answer.headers.get("ETag", "")
            return Entry(path, int(size), _moment(answer), tag)

    def open(self, path: bytes, start: int = 0) -> Readable:
        """Read a URL from an offset on."""
        entry = self.stat(path)
        if entry is None:
            raise DataLossError("there is nothing at this URL any more", got=path.decode())
        return HttpDownload(self, path, entry, start)

    def ask(self, path: bytes, method: str, more: dict[str, str] | None = None) -> Any:
        """One request.

        Raises:
            DataLossError: 404 or 410.
            EphemeralReadError: the server does not answer now.
        """
        url = path.decode()
        shown = {k: v.reveal() if isinstance(v, Secret) else v for k, v in self.headers}
        request = urllib.request.Request(url, method=method, headers={**shown, **(more or {})})
        opener = urllib.request.build_opener(_SameHost())
        try:
            return opener.open(request, timeout=self.timeout)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (404, 410):
                raise DataLossError("there is nothing at this URL", got=url) from None
            kind = EphemeralReadError if error.code in _LATER else ReadError
            raise kind(f"the server answers {error.code} {error.reason}", got=url) from None
        except (OSError, http.client.HTTPException) as error:
            raise EphemeralReadError(f"the server does not answer: {error}", got=url) from error


class HttpDownload:
    """A URL read forward; on from the same byte after a break."""

    def __init__(self, storage: HttpStorage, path: bytes, entry: Entry, start: int) -> None:
        self._storage = storage
        self._path = path
        self._entry = entry
        self._at = start
        self._answer: Any = None

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; empty at the end."""
        left = self._entry.size - self._at
        wanted = left if size < 0 else min(size, left)
        if wanted <= 0:
            return b""
        for attempt in range(self._storage.retries + 1):
            try:
                if self._answer is None:
                    self._answer = self._open()
                data: bytes = self._answer.read(wanted)
                if not data:
                    raise ConnectionError("the connection ended early")
                last = len(data) == left and self._answer.length is None
                if last and self._answer.read(1):
                    raise self._changed()
                self._at += len(data)
                return data
            except (OSError, http.client.HTTPException, EphemeralReadError) as error:
                self.close()
                if attempt == self._storage.retries:
                    raise EphemeralReadError(
                        f"a transfer broke off: {error or type(error).__name__}",
                        got=f"{self._path.decode()} at byte {self._at} of {self._entry.size}",
                    ) from error
                time.sleep(min(0.2 * 2**attempt, 5.0))
        raise AssertionError("not reached")

    def _open(self) -> Any:
        """The file from the next byte on, seen to be the one that was announced."""
        if self._at == 0:
            answer = self._storage.ask(self._path, "GET")
        else:
            wanted = {"Range": f"bytes={self._at}-", **self._unchanged()}
            answer = self._storage.ask(self._path, "GET", wanted)
        try:
            if answer.status == 206:
                self._check(answer, self._total(answer))
                return answer
            length = answer.headers.get("Content-Length")
            self._check(answer, int(length) if length else None)
            left = self._at  # no ranges here: once more from the start
            while left:
                skipped = answer.read(min(left, 1 << 20))
                if not skipped:
                    raise ConnectionError("the connection ended early")
                left -= len(skipped)
            return answer
        except BaseException:
            answer.close()
            raise

    def _unchanged(self) -> dict[str, str]:
        """A range is wanted only of the same content; a weak tag does not say that."""
        if self._entry.tag and not self._entry.tag.startswith("W/"):
            return {"If-Range": self._entry.tag}
        if self._entry.modified:
            return {"If-Range": formatdate(self._entry.modified // 1_000_000_000, usegmt=True)}
        return {}

    def _total(self, answer: Any) -> int | None:
        """The size of the whole file, as an answer with a range of it says."""
        said = answer.headers.get("Content-Range", "")
        found = _RANGE.fullmatch(said)
        if found is None or int(found.group(1)) != self._at:
            raise ReadError(
                "the server answers with another range than was asked for",
                expected=f"Content-Range: bytes {self._at}-...",
                got=f"{said or 'no Content-Range'} of {self._path.decode()}",
            )
        return None if found.group(2) == "*" else int(found.group(2))

    def _check(self, answer: Any, size: int | None) -> None:
        """See that an answer is of the file that was announced, as far as the server tells."""
        tag, announced = answer.headers.get("ETag", ""), self._entry.tag
        if tag and announced:
            same = tag == announced
        else:
            moment = _moment(answer)
            same = not moment or not self._entry.modified or moment == self._entry.modified
        if not same or (size is not None and size != self._entry.size):
            raise self._changed()

    def _changed(self) -> DataLossError:
        return DataLossError("a file has changed while it was read", got=self._path.decode())

    def close(self) -> None:
        """Free the connection."""
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.close()


def _moment(answer: Any) -> int:
    """When the server says a file was changed, in nanoseconds; 0: it does not."""
    try:
        said = parsedate_to_datetime(answer.headers.get("Last-Modified", ""))
    except ValueError:
        return 0
    return int(said.timestamp()) * 1_000_000_000
