"""Serves the built book on this machine and renders it anew when a source changes."""

from __future__ import annotations

import functools
import gzip
import http.server
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bookkit.site.build import SiteError, build_site

WATCHED_FOLDERS = ("book", "notebooks", "exercises", "solutions")
WATCHED_SUFFIXES = {".md", ".ipynb", ".bib", ".svg", ".png", ".css", ".js", ".py", ".j2", ".yml"}
COMPRESSED_SUFFIXES = {".html", ".css", ".js", ".json", ".svg", ".ipynb", ".md"}
SECONDS_BETWEEN_LOOKS = 1.0
PORTS_TO_TRY = 20


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files, text compressed, without a log; browsers must ask again each time."""

    def do_GET(self) -> None:
        """Answer with the compressed file if it is text and the browser takes it."""
        path = Path(self.translate_path(self.path))
        if self.path.partition("?")[0].endswith("/"):
            path = path / "index.html"
        accepts = "gzip" in self.headers.get("Accept-Encoding", "")
        if not (accepts and path.suffix in COMPRESSED_SUFFIXES and path.is_file()):
            super().do_GET()
            return
        body = gzip.compress(path.read_bytes(), compresslevel=5)
        self.send_response(http.HTTPStatus.OK)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def end_headers(self) -> None:
        """Add the header against stale copies."""
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def open_server(folder: Path, port: int) -> http.server.ThreadingHTTPServer:
    """Return a server of `folder` on 127.0.0.1, on the first free port from `port` on.

    Raises SiteError if none of the next ports is free.
    """
    handler = functools.partial(QuietHandler, directory=str(folder))
    for candidate in range(port, port + PORTS_TO_TRY):
        try:
            return http.server.ThreadingHTTPServer(("127.0.0.1", candidate), handler)
        except OSError:
            continue
    raise SiteError(
        f"No port from {port} to {port + PORTS_TO_TRY - 1} is free: choose one by --port."
    )


def serve_site(project: Path, port: int, say: Callable[[str], None]) -> None:
    """Build, serve, and rebuild on changes until interrupted (Ctrl-C)."""
    site = build_site(project)
    with open_server(site, port) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        say(f"\nThe book is at http://127.0.0.1:{server.server_port}/ (stop with Ctrl-C).")
        try:
            for _ in changes(project):
                try:
                    build_site(project, keep_last=True)
                except SiteError as error:
                    say(f"{error} The last good version is still served.")
        except KeyboardInterrupt:
            say("Stopped.")
        finally:
            server.shutdown()


def changes(project: Path) -> Iterator[None]:
    """Yield each time a source of the book has changed."""
    seen = newest_change(project)
    while True:
        time.sleep(SECONDS_BETWEEN_LOOKS)
        now = newest_change(project)
        if now != seen:
            seen = now
            yield


def newest_change(project: Path) -> dict[Path, int]:
    """When each source was last written, in nanoseconds."""
    sources = [project / "myst.yml"]
    for name in WATCHED_FOLDERS:
        sources += [
            path
            for path in (project / name).rglob("*")
            if path.suffix in WATCHED_SUFFIXES and ".ipynb_checkpoints" not in path.parts
        ]
    return {path: path.stat().st_mtime_ns for path in sources if path.is_file()}
