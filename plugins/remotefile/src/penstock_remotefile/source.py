"""Files on other systems as a source."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import pyarrow as pa
from attrs import evolve

from penstock.contracts import Context, Part, ReplayableSource, connector, option
from penstock.contracts.errors import OptionError
from penstock_localfile.engine.batches import joined
from penstock_localfile.engine.discovery import Rules
from penstock_localfile.engine.names import literal, matcher
from penstock_localfile.engine.options import FileOptions
from penstock_localfile.engine.planner import FilePlanner
from penstock_localfile.engine.storage import Storage
from penstock_remotefile.place import RemotePlace, meant

_WEB = ("http", "https")


@connector
class RemoteFiles(RemotePlace, FileOptions, ReplayableSource):
    """Reads files by SFTP, HTTP(S) or fsspec, each once, and new ones as they come."""

    urls: list[str] = option(factory=list, doc="http: the URLs to read, instead of url.")

    def settle(self) -> None:
        """Refuse what contradicts itself."""
        RemotePlace.settle(self)
        FileOptions.settle(self)
        if bool(self.url) == bool(self.urls):
            raise OptionError(
                "say where the files are, once", expected="url, or urls", got="both or neither"
            )
        strange = [u for u in self.urls if not u.lower().startswith(("http://", "https://"))]
        if strange:
            raise OptionError("urls takes only http and https", got=strange[0])
        if self._is_web():
            if self.after != "keep":
                raise OptionError("files behind HTTP can only be kept", got=f"after={self.after}")
        else:
            matcher(self.located()[1])
            stored = self.scheme != "sftp" and self.after == "archive"
            if stored and self.archive.startswith("/"):
                raise OptionError(
                    "a store has no absolute folders",
                    expected="archive: a URL, or a folder below the root",
                    got=f"archive={self.archive}",
                    fix=f"give a whole URL: archive={self.scheme}://...",
                )

    def addresses(self) -> list[str]:
        """Every URL among the options."""
        return [self.url, *self.urls, self.archive]

    def schema(self) -> pa.Schema:
        """The envelope, or the columns of the format and `_pen`."""
        form = self.file_format()
        if form.learns():  # only then is anybody asked
            form = self.file_format(self.learned(*self._found()))
        return form.schema()

    def planner(self, ctx: Context) -> FilePlanner:
        """Lists on the driver, and remembers in the state folder what it has seen."""
        storage, rules = self._found()
        return self.file_planner(storage, rules, ctx.state)

    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Fetches and decodes some files, or a range of one."""
        storage, _ = self._found()
        form = self.file_format(part.learned)
        yield from joined(rows for piece in part.ranges for rows in form.read(storage, piece))

    def check(self) -> None:
        """See that the server answers, takes the credentials, and the folder may be listed."""
        storage, _ = self._found()
        next(iter(storage.walk(recursive=False)), None)

    def _is_web(self) -> bool:
        return bool(self.urls) or self.scheme in _WEB

    def _found(self) -> tuple[Storage, Rules]:
        """The system, and which of its files are meant."""
        if self._is_web():
            from penstock_remotefile.http import HttpStorage

            urls = tuple(self.urls) or (self.url,)
            headers = tuple(sorted(self.headers.items()))
            web = HttpStorage(urls, headers, self.timeout, self.retries)
            return web, self.rules(web, "", named=True)
        storage, pattern = self.storage()
        folder, _, name = self.url.rpartition("/")
        if not pattern and name and "://" in folder:
            above, _ = evolve(self, url=folder).storage()
            plain = meant(name) if self.scheme == "sftp" else name  # fsspec quotes nothing
            if _is_file(above, plain.encode("utf-8", "surrogateescape")):
                return above, self.rules(above, literal(plain), named=True)
        return storage, self.rules(storage, pattern)


@lru_cache(maxsize=64)
def _is_file(above: Storage, name: bytes) -> bool:
    """Whether a URL names one file. Asked once in a process: a stream must not change its mind."""
    return above.stat(name) is not None
