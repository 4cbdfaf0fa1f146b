"""The server of the built book."""

from __future__ import annotations

import gzip
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bookkit.site import serve
from bookkit.site.build import SiteError
from bookkit.site.commands import app


def test_serves_files_and_forbids_stale_copies(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello", encoding="utf-8")
    with serve.open_server(tmp_path, 18400) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        with urllib.request.urlopen(address, timeout=100) as reply:
            assert reply.read() == b"hello"
            assert reply.headers["Cache-Control"] == "no-cache"
        server.shutdown()


def test_text_is_compressed_for_browsers_that_take_it(tmp_path: Path) -> None:
    text = "<p>a page</p>" * 500
    (tmp_path / "index.html").write_text(text, encoding="utf-8")
    with serve.open_server(tmp_path, 18500) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        request = urllib.request.Request(address, headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(request, timeout=100) as reply:
            packed = reply.read()
            assert reply.headers["Content-Encoding"] == "gzip"
            assert reply.headers["Content-Type"].startswith("text/html")
        assert gzip.decompress(packed).decode() == text
        assert len(packed) < len(text) / 10
        server.shutdown()


def test_takes_the_next_port_if_one_is_busy(tmp_path: Path) -> None:
    with (
        serve.open_server(tmp_path, 18430) as first,
        serve.open_server(tmp_path, first.server_port) as second,
    ):
        assert second.server_port > first.server_port


def test_says_when_no_port_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "PORTS_TO_TRY", 1)
    with serve.open_server(tmp_path, 18460) as first:
        port = first.server_port
        with pytest.raises(SiteError, match=f"No port from {port} to {port} is free"):
            serve.open_server(tmp_path, port)


def test_a_changed_source_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "SECONDS_BETWEEN_LOOKS", 0.01)
    (tmp_path / "myst.yml").write_text("version: 1\n", encoding="utf-8")
    (tmp_path / "book").mkdir()
    page = tmp_path / "book" / "index.md"
    page.write_text("one", encoding="utf-8")
    noticed, looks, look = threading.Event(), [], serve.newest_change

    def noted(project: Path) -> dict[Path, int]:
        looks.append(look(project))
        return looks[-1]

    monkeypatch.setattr(serve, "newest_change", noted)

    def watch() -> None:
        next(serve.changes(tmp_path))
        noticed.set()

    def wait_for_three_looks() -> None:
        end, before = time.monotonic() + 100, len(looks)
        while len(looks) < before + 3:
            assert time.monotonic() < end
            time.sleep(0.005)

    threading.Thread(target=watch, daemon=True).start()
    wait_for_three_looks()
    assert not noticed.is_set()
    (tmp_path / "book" / "notes.txt").write_text("not a source", encoding="utf-8")
    wait_for_three_looks()
    assert not noticed.is_set()
    page.write_text("two", encoding="utf-8")
    assert noticed.wait(100)


def test_failed_rebuild_is_said_and_the_server_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    builds: list[bool] = []

    def build(project: Path, *, keep_last: bool = False) -> Path:
        builds.append(keep_last)
        if keep_last:
            raise SiteError("The book was not built.")
        return project

    def changes(project: Path):
        yield
        yield
        raise KeyboardInterrupt

    monkeypatch.setattr(serve, "build_site", build)
    monkeypatch.setattr(serve, "changes", changes)
    serve.serve_site(tmp_path, 18480, said.append)
    assert builds == [False, True, True]
    assert "http://127.0.0.1:" in said[0]
    failed = "The book was not built. The last good version is still served."
    assert said[1:] == [failed, failed, "Stopped."]


def test_command_outside_the_repository_exits_1(tmp_path: Path) -> None:
    for command in ("build", "serve", "pdf", "pictures"):
        result = CliRunner().invoke(app, [command, "--project", str(tmp_path)])
        assert result.exit_code == 1
        assert "There is no myst.yml in" in result.output
