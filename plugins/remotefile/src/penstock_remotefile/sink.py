"""Other systems as a sink: whole files, exactly once per batch."""

from __future__ import annotations

from penstock.contracts import connector
from penstock.contracts.errors import OptionError
from penstock_localfile.engine.filesink import FileSink
from penstock_localfile.engine.publishing import HOME
from penstock_localfile.engine.storage import Storage
from penstock_remotefile.place import RemotePlace


@connector
class RemoteFileSink(RemotePlace, FileSink):
    """Writes files by SFTP or fsspec; a replayed batch changes nothing."""

    def settle(self) -> None:
        """A target is a folder that can be written."""
        RemotePlace.settle(self)
        FileSink.settle(self)
        if not self.url:
            raise OptionError("the option url is missing", expected="url: the folder to write to")
        if self.scheme in ("http", "https"):
            raise OptionError("files cannot be written by HTTP", got=self.url)
        if self.keep_times and self.scheme != "sftp":
            raise OptionError(
                "stores keep their own times, which cannot be set",
                expected="keep_times only where the target is a folder or an SFTP server",
                got=f"keep_times with {self.scheme}://",
            )
        if self.located()[1]:
            raise OptionError("the place to write to is a glob", got=self.url)

    def target(self) -> Storage:
        """The folder."""
        return self.storage()[0]

    def check(self) -> None:
        """See that the server answers and takes the credentials."""
        self.target().folders(HOME)
