"""The server of the page: reads run folders, for this machine alone, and writes nothing."""

from __future__ import annotations

import json
import math
import re
import secrets
import sys
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qsl

from ilbo.errors import UserError
from ilbo.storage.files import reason
from ilbo.watch.folders import Folders
from ilbo.watch.pictures import Pictures

HERE = "127.0.0.1"
NAMES = (HERE, "localhost")
"""What this machine may be called in a request: another name comes from another page."""
PAGE = {
    "": ("index.html", "text/html; charset=utf-8"),
    "watch.js": ("watch.js", "text/javascript; charset=utf-8"),
    "chart.js": ("chart.js", "text/javascript; charset=utf-8"),
    "watch.css": ("watch.css", "text/css; charset=utf-8"),
}
"""The files of the page, by their addresses."""
JSON = "application/json; charset=utf-8"
HEADERS = {
    # Pictures come with styles in them; a script runs from the page's own files alone.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; style-src 'self' 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Server(ThreadingHTTPServer):
    """Serves what is in some folders to who knows the address."""

    daemon_threads = True

    def __init__(self, folders: Folders, pictures: Pictures, port: int = 0):
        """Port 0 is any that is free."""
        self.folders, self.pictures = folders, pictures
        self.token = secrets.token_urlsafe(24)
        super().__init__((HERE, port), Handler)

    def server_bind(self) -> None:
        """Without asking how this machine is called elsewhere, which can take long."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = HERE, self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the midst of an answer is no error."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        return f"http://{HERE}:{self.server_address[1]}/{self.token}/"


class Refused(Exception):
    """A request that is not answered."""

    def __init__(self, status: HTTPStatus, why: str):
        super().__init__(why)
        self.status = status


class Handler(BaseHTTPRequestHandler):
    """Answers GET with a file of the page or with JSON; all else is refused.

    No part of an address is ever used as a path: files and folders are looked up in tables.
    """

    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "ilbo", ""
    timeout = 60

    def do_GET(self) -> None:
        try:
            self._check_sender()
            kind, body = self._answer(*self._asked())
        except Refused as refused:
            self._send(refused.status, "text/plain; charset=utf-8", f"{refused}\n".encode())
        except UserError as error:  # of one run: the page says so where the run is shown
            self._send(HTTPStatus.OK, JSON, _json({"error": str(error)}))
        else:
            self._send(HTTPStatus.OK, kind, body)

    def _refuse_method(self) -> None:
        self.close_connection = True  # what else was sent is not read
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", b"This only answers GET.\n")

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse_method

    def _check_sender(self) -> None:
        """Refuses what a page of another site has the browser ask for, under whatever name."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        named = re.sub(r":\d+$", "", host) in NAMES
        if not named or origin not in (None, f"http://{host}"):
            raise Refused(HTTPStatus.FORBIDDEN, "This answers only to pages of its own.")

    def _asked(self) -> tuple[list[str], dict[str, str]]:
        """The parts of the address behind the token, and what is asked after the question mark."""
        path, _, query = self.path.partition("?")
        token, *parts = path.removeprefix("/").split("/")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            why = "The address needs the token that `ilbo watch` printed: open it as it stands."
            raise Refused(HTTPStatus.FORBIDDEN, why)
        try:
            return parts, dict(parse_qsl(query, max_num_fields=8))
        except ValueError:  # of too many
            raise Refused(HTTPStatus.NOT_FOUND, "There is nothing at this address.") from None

    def _answer(self, parts: list[str], query: dict[str, str]) -> tuple[str, bytes]:
        """The type and the body of what is asked for."""
        if len(parts) == 1 and parts[0] in PAGE:
            name, kind = PAGE[parts[0]]
            return kind, resources.files(__package__).joinpath("page", name).read_bytes()
        if parts == ["runs"]:
            return JSON, _json(self.server.folders.runs())
        if len(parts) == 2 and parts[0] == "metrics":
            start, mark = _whole(query.get("from", "0")), query.get("mark", "")
            return JSON, _json(self.server.folders.metrics(self._folder(parts[1]), start, mark))
        if len(parts) == 3 and parts[0] == "picture":
            run = self.server.folders.run(self._folder(parts[1]))
            return JSON, _json(self._picture(run, _whole(parts[2])))
        raise Refused(HTTPStatus.NOT_FOUND, "There is nothing at this address.")

    def _picture(self, run: Any, seed: int) -> dict[str, Any]:
        try:
            return self.server.pictures.draw(run, seed)
        except UserError:
            raise
        except Exception as error:  # a model of the user's own may raise anything
            what = f"{type(error).__name__}: {error}".strip(": ")
            raise UserError(f"The picture could not be drawn: {what}") from error

    def _folder(self, key: str) -> Path:
        """The run folder of a key of the page."""
        found = self.server.folders.found().get(key)
        if found is None:
            raise Refused(HTTPStatus.NOT_FOUND, "There is no such run in the folders.")
        return found

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: the terminal is the user's."""


def serve(paths: Sequence[str | Path], port: int = 0, trust: bool = False) -> Server:
    """A server of the runs in these folders, ready for `serve_forever`."""
    folders = Folders(paths)
    if not 0 <= port < 2**16:
        raise UserError(f"A port is a number from 0 to 65,535, got {port}.")
    try:
        return Server(folders, Pictures(trust), port)
    except OSError as error:
        raise UserError(
            f"Cannot listen on port {port}: {reason(error)}; choose another --port, or leave it "
            "out for any that is free."
        ) from None


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise Refused(HTTPStatus.NOT_FOUND, "There is nothing at this address.")
    return int(text)


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, allow_nan=False).encode()
    except ValueError:  # files may hold what JSON has no word for
        return json.dumps(_finite(value), allow_nan=False).encode()


def _finite(value: Any) -> Any:
    """The same with null for what is not finite."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
