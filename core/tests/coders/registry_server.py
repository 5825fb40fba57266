"""A small Schema Registry in this process: the part of Confluent's API that clients use.

Compatibility is checked for Avro (by our own rules of resolution) and taken as given for the
others. It counts requests, can ask for credentials, fail, redirect and go away.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from penstock.coders.avro import types
from penstock.coders.avro.resolve import resolve
from penstock.contracts.errors import SchemaError

CONTENT = "application/vnd.schemaregistry.v1+json"


class Refused(Exception):
    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class RegistryServer:
    """Schemas by id and by subject and version. Thread-safe."""

    def __init__(self, authorization: str | None = None, context: ssl.SSLContext | None = None):
        self.lock = threading.Lock()
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.level = "BACKWARD"
        self.authorization = authorization
        self.requests: list[str] = []
        self.redirect: str | None = None
        self.failing = 0
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.http.daemon_threads = True
        if context is not None:
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        self.scheme = "http" if context is None else "https"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"{self.scheme}://localhost:{self.http.server_address[1]}"

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join(5)

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Any:
        with self.lock:
            for verb, pattern, serve in _ROUTES:
                match = re.fullmatch(pattern, path)
                if verb == method and match:
                    return serve(self, body, *match.groups())
        raise Refused(404, 404, "HTTP 404 Not Found")

    def by_id(self, _: Any, number: str) -> Any:
        found = self.schemas.get(int(number))
        if found is None:
            raise Refused(404, 40403, "Schema not found")
        return found

    def versions(self, _: Any, subject: str) -> Any:
        return list(range(1, len(self.known(subject)) + 1))

    def version(self, _: Any, subject: str, version: str) -> Any:
        ids = self.known(subject)
        number = len(ids) if version in ("latest", "-1") else int(version)
        if not 1 <= number <= len(ids):
            raise Refused(404, 40402, "Version not found")
        found = self.schemas[ids[number - 1]]
        return {"subject": subject, "version": number, "id": ids[number - 1], **found}

    def register(self, body: dict[str, Any], subject: str) -> Any:
        schema = self.checked(body)
        ids = self.subjects.get(subject, [])
        same = [n for n, known in self.schemas.items() if known == schema]
        if same and same[0] in ids:
            return {"id": same[0]}
        if ids and not self.compatible(schema, self.schemas[ids[-1]]):
            raise Refused(
                409, 409, "Schema being registered is incompatible with an earlier schema"
            )
        number = same[0] if same else len(self.schemas) + 1
        self.schemas[number] = schema
        self.subjects.setdefault(subject, []).append(number)
        return {"id": number}

    def lookup(self, body: dict[str, Any], subject: str) -> Any:
        schema = self.checked(body)
        for version, number in enumerate(self.known(subject), 1):
            if self.schemas[number] == schema:
                return {"subject": subject, "version": version, "id": number, **schema}
        raise Refused(404, 40403, "Schema not found")

    def test(self, body: dict[str, Any], subject: str, version: str) -> Any:
        against = self.version(None, subject, version)
        return {"is_compatible": self.compatible(self.checked(body), against)}

    def config(self, body: dict[str, Any], *_: str) -> Any:
        self.level = body.get("compatibility", self.level)
        return {"compatibilityLevel": self.level, "compatibility": self.level}

    def known(self, subject: str) -> list[int]:
        if subject not in self.subjects:
            raise Refused(404, 40401, f"Subject '{subject}' not found.")
        return self.subjects[subject]

    def checked(self, body: dict[str, Any]) -> dict[str, Any]:
        kind = body.get("schemaType", "AVRO")
        kept = {"schema": body["schema"], "references": body.get("references") or []}
        if kind != "AVRO":
            return {**kept, "schemaType": kind}
        try:
            types.parse(body["schema"], self.texts(kept["references"]))
        except SchemaError as error:
            raise Refused(422, 42201, str(error)) from None
        # Equal but for white space is equal.
        return {**kept, "schema": json.dumps(json.loads(body["schema"]))}

    def texts(self, references: list[dict[str, Any]]) -> list[str]:
        """The schemas referred to, each after those it refers to itself."""
        found: dict[str, str] = {}
        for each in references:
            schema = self.version(None, each["subject"], str(each["version"]))
            found |= dict.fromkeys(self.texts(schema["references"]), "")
            found[schema["schema"]] = ""
        return list(found)

    def compatible(self, new: dict[str, Any], old: dict[str, Any]) -> bool:
        if self.level == "NONE" or "schemaType" in new:
            return True

        def node(schema: dict[str, Any]) -> types.Node:
            return types.parse(schema["schema"], self.texts(schema["references"]))

        try:
            if self.level in ("BACKWARD", "FULL"):
                resolve(node(old), node(new))
            if self.level in ("FORWARD", "FULL"):
                resolve(node(new), node(old))
        except SchemaError:
            return False
        return True


_ROUTES: list[tuple[str, str, Any]] = [
    ("GET", r"/schemas/ids/(\d+)", RegistryServer.by_id),
    ("GET", r"/subjects/([^/]+)/versions", RegistryServer.versions),
    ("GET", r"/subjects/([^/]+)/versions/([^/]+)", RegistryServer.version),
    ("POST", r"/subjects/([^/]+)/versions", RegistryServer.register),
    ("POST", r"/subjects/([^/]+)", RegistryServer.lookup),
    ("POST", r"/compatibility/subjects/([^/]+)/versions/([^/]+)", RegistryServer.test),
    ("PUT", r"/config(?:/([^/]+))?", RegistryServer.config),
    ("GET", r"/config(?:/([^/]+))?", RegistryServer.config),
]


def _handler(server: RegistryServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.serve("GET")

        def do_POST(self) -> None:
            self.serve("POST")

        def do_PUT(self) -> None:
            self.serve("PUT")

        def serve(self, method: str) -> None:
            path = self.path.partition("?")[0]
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size) or b"{}")
            server.requests.append(f"{method} {path}")
            if server.authorization not in (None, self.headers.get("Authorization")):
                self.reply(401, {"error_code": 40101, "message": "Unauthorized"})
            elif server.redirect is not None:
                self.reply(302, {}, ("Location", server.redirect + path))
            elif server.failing:
                server.failing -= 1
                self.reply(503, {"error_code": 50301, "message": "Unavailable"})
            else:
                try:
                    self.reply(200, server.answer(method, path, body))
                except Refused as error:
                    self.reply(error.status, {"error_code": error.code, "message": error.message})

        def reply(self, status: int, body: Any, *headers: tuple[str, str]) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            for name, value in (
                ("Content-Type", CONTENT),
                ("Content-Length", str(len(text))),
                *headers,
            ):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            """Silence: the tests look at `requests`."""

    return Handler


@contextmanager
def running(**options: Any) -> Iterator[RegistryServer]:
    """A registry for a while."""
    server = RegistryServer(**options)
    try:
        yield server
    finally:
        server.close()
