"""A server for the built site, under the sub-path that its public address has.

The theme navigates instantly only to addresses that stand in sitemap.xml, which holds the public
ones; the server puts its own in their place.
"""

from __future__ import annotations

import errno
import os
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from devtools.steps import StepError, files

if TYPE_CHECKING:
    from collections.abc import Callable

LOCAL_URL = "http://127.0.0.1:8000/training-memory/"
WATCHED = ("docs", "py", "mkdocs.yml", "mkdocs.ur.yml", "mkdocs.bn.yml")
WAIT_SECONDS = 0.7


def public_url() -> str:
    """Return the site's public address: SITE_URL if set, else the one of the local server."""
    address = (os.environ.get("SITE_URL") or LOCAL_URL).rstrip("/") + "/"
    if not _is_address(address):
        raise StepError(f"SITE_URL is {address}; it must be an address such as {LOCAL_URL}")
    return address


def _is_address(text: str) -> bool:
    """Whether it is http or https, with a host and, if any, a port that exists."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number, or too large
        return False


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder under a path; what is outside the path does not exist."""

    extensions_map = {  # noqa: RUF012  (the base class has it as a plain dict)
        **SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
        ".js": "text/javascript",
        ".wasm": "application/wasm",
        ".woff2": "font/woff2",
    }

    def __init__(self, *rest: object, public: str, prefix: str, directory: str) -> None:
        self.public, self.prefix = public, prefix
        super().__init__(*rest, directory=directory)  # type: ignore[arg-type]

    def translate_path(self, path: str) -> str:
        way = urlsplit(path).path
        if not way.startswith(self.prefix):
            return ""
        return super().translate_path("/" + way.removeprefix(self.prefix))

    def do_GET(self) -> None:
        if urlsplit(self.path).path in ("/", self.prefix.rstrip("/")) and self.prefix != "/":
            self.send_response(302)
            self.send_header("Location", self.prefix)
            self.end_headers()
        elif self.path.endswith("/sitemap.xml") and Path(self.translate_path(self.path)).exists():
            self._sitemap(Path(self.translate_path(self.path)))
        else:
            super().do_GET()

    def _sitemap(self, path: Path) -> None:
        own = f"http://{self.headers['Host']}{self.prefix}"
        body = path.read_text("utf-8").replace(self.public, own).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base's name)
        """Say nothing: one line for each file would hide the steps of a rebuild."""


def server(site: Path, url: str, public: str = "") -> tuple[ThreadingHTTPServer, str]:
    """Listen at the address's port, or the next free one; return the server and its address."""
    parts = urlsplit(url)
    prefix = parts.path or "/"
    handler = partial(Handler, public=public or url, prefix=prefix, directory=str(site))
    wanted = parts.port if parts.hostname in ("127.0.0.1", "localhost") and parts.port else 8000
    for port in (*range(wanted, wanted + 20), 0):
        try:
            found = ThreadingHTTPServer(("127.0.0.1", port), handler)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
        else:
            return found, f"http://127.0.0.1:{found.server_port}{prefix}"
    raise OSError(errno.EADDRINUSE, "no port is free")


def start(site: Path, url: str, public: str = "") -> tuple[ThreadingHTTPServer, str]:
    """Serve in a thread of its own. `public`: the address that the site was built for."""
    found, address = server(site, url, public)
    Thread(target=found.serve_forever, daemon=True).start()
    return found, address


def _changes() -> dict[str, float]:
    return {str(path): path.stat().st_mtime for path in files(*WATCHED)}


def watch(rebuild: Callable[[], object]) -> None:
    """Rebuild whenever a source of the site changes, until interrupted."""
    seen = _changes()
    while True:
        time.sleep(WAIT_SECONDS)
        try:
            now = _changes()
        except FileNotFoundError:  # a file went while it was looked at
            continue
        if now != seen:
            seen = now
            rebuild()
