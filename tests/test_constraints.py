"""The pinned versions: they install on the oldest Python that the project promises."""

import shutil
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
PINS = [Requirement(line) for line in LINES if line and not line.startswith("#")]


def test_every_pin_takes_the_oldest_python_that_is_promised():
    """Debian 12 has 3.11.2: one pin that wants 3.11.5 makes the whole installation impossible."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = project["requires-python"].removeprefix(">=") + ".2"
    assert SpecifierSet(project["requires-python"]).contains(oldest)
    refused, known = [], 0
    for pin in PINS:
        try:
            wanted = metadata(pin.name).get("Requires-Python")
        except PackageNotFoundError:
            continue  # of another machine, or of one extra
        known += 1
        if wanted and not SpecifierSet(wanted).contains(oldest):
            refused.append(f"{pin.name} wants {wanted}")
    assert known > 100 and not refused


def test_an_installation_that_fails_says_what_it_needs(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("pyproject.toml", "constraints.txt", ".venv/bin/python"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    for goal in ("book", "lab"):
        command = ["make", goal, "PIP=false"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode and "The first installation needs the network" in done.stdout
        assert not list((tmp_path / ".venv").glob("installed-*"))


@pytest.mark.parametrize("pin", PINS, ids=str)
def test_a_pin_names_one_version(pin):
    assert [specifier.operator for specifier in pin.specifier] == ["=="]
