"""Where the files of a fault test lie: a folder, an SFTP server, an object store."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.conformance.waiting import until


class Folder:
    """Two folders of this machine, `in` and `out`."""

    connector = "localfile"

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "in").mkdir(parents=True)

    def options(self, folder: str) -> dict[str, Any]:
        return {"path": f"{self.root}/{folder}"}

    def put(self, name: str, data: bytes) -> None:
        (self.root / "in" / name).write_bytes(data)

    def sizes(self, folder: str) -> dict[str, int]:
        """Every file below a folder; one that goes away meanwhile is none."""
        found = {}
        for path in (self.root / folder).rglob("*"):
            try:
                if path.is_file():
                    found[str(path.relative_to(self.root / folder))] = path.stat().st_size
            except FileNotFoundError:
                continue
        return found

    def content(self, folder: str, name: str) -> bytes:
        return (self.root / folder / name).read_bytes()

    def visible(self, folder: str) -> dict[str, int]:
        """What a reader of the folder would take."""
        names = self.sizes(folder).items()
        return {name: size for name, size in names if not name.startswith(".")}


class Sftp(Folder):
    """The same, on an OpenSSH server."""

    connector = "remotefile"

    def __init__(self, sshd: Any, name: str) -> None:
        super().__init__(sshd.files / name)
        self._sshd = sshd

    def options(self, folder: str) -> dict[str, Any]:
        server = self._sshd
        return {
            "url": f"sftp://{server.user}@127.0.0.1:{server.port}{self.root}/{folder}",
            "private_key": str(server.private_key),
            "known_hosts": str(server.known_hosts),
        }


class Store:
    """The same, as prefixes of a bucket."""

    connector = "remotefile"

    def __init__(self, store: Any, bucket: str) -> None:
        import s3fs

        self._access = {"key": "me", "secret": "canary", "endpoint_url": store.address}
        self._fs = s3fs.S3FileSystem(**self._access, skip_instance_cache=True)
        self._bucket = bucket
        self._fs.mkdir(bucket)

    def options(self, folder: str) -> dict[str, Any]:
        access = {f"fs.{name}": value for name, value in self._access.items()}
        return {"url": f"s3://{self._bucket}/{folder}", **access}

    def put(self, name: str, data: bytes) -> None:
        self._fs.pipe(f"{self._bucket}/in/{name}", data)

    def sizes(self, folder: str) -> dict[str, int]:
        self._fs.invalidate_cache()
        top = f"{self._bucket}/{folder}/"
        found = self._fs.find(top, detail=True).items()
        # A prefix that gets its first object meanwhile is told as a folder of no size.
        return {n.removeprefix(top): f["size"] for n, f in found if f["type"] == "file"}

    def content(self, folder: str, name: str) -> bytes:
        return self._fs.cat_file(f"{self._bucket}/{folder}/{name}")

    visible = Folder.visible


Place = Folder | Store


def tell(place: Place, folder: Path) -> None:
    """Leave word for the driver where its files are."""
    told = {"connector": place.connector, **{f: place.options(f) for f in ("in", "out")}}
    (folder / "place.json").write_text(json.dumps(told))


@contextmanager
def only_whole(place: Place) -> Iterator[None]:
    """Look at the target all the while: whatever is visible there has its last size at once."""
    seen: set[tuple[str, int]] = set()
    failed: list[BaseException] = []
    looks, over = 0, threading.Event()

    def look() -> None:
        nonlocal looks
        try:
            while not over.wait(0.05):
                seen.update(place.visible("out").items())
                looks += 1
        except BaseException as error:
            failed.append(error)

    watch = threading.Thread(target=look, daemon=True)
    watch.start()
    try:
        yield
        before = looks
        until(lambda: failed or looks > before + 1, within=20, why="the end was looked at")
    finally:
        over.set()
        watch.join(20)
    assert not failed, failed
    whole = set(place.visible("out").items())
    assert whole
    assert seen == whole, f"seen, and not there in the end: {sorted(seen - whole)}"
