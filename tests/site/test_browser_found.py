"""A missing browser is skipped with a clear message, and is a failure where it is required."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.outcomes import Failed, Skipped
from browser_tools import required_chromium

from bookkit.site.browser import find_chromium


@pytest.fixture(autouse=True)
def no_browser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NBKIT_CHROMIUM", str(tmp_path / "none"))


def test_missing_browser_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NBKIT_REQUIRE_BROWSER", raising=False)
    with pytest.raises(Skipped, match="apt-get install chromium"):
        required_chromium()


def test_missing_browser_fails_where_it_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBKIT_REQUIRE_BROWSER", "1")
    with pytest.raises(Failed, match="apt-get install chromium"):
        required_chromium()


def test_named_browser_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "chrome"
    program.touch()
    monkeypatch.setenv("NBKIT_CHROMIUM", str(program))
    assert find_chromium() == program


def test_browser_is_found_on_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NBKIT_CHROMIUM")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_chromium() is None
    program = tmp_path / "google-chrome"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    assert find_chromium() == program
