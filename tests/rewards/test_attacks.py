"""The attack suite: none of its programs may get out, stay alive, or get a reward."""

import os
import time
from pathlib import Path

import psutil
import pytest

from nbkit.rewards import code_score, run_code
from nbkit.rewards.sandbox import Sandbox
from tests.rewards.attacks import CHEATS, PRELUDE, REFUSED, STOPPED, TESTS

pytestmark = [pytest.mark.usefixtures("sandboxed"), pytest.mark.slow]
REPOSITORY = str(Path(__file__).resolve().parents[2])


@pytest.fixture(params=["bubblewrap", "namespaces"])
def box(request, sandboxed):
    """A sandbox of either kind; the second is the fallback, tested where both work."""
    if request.param == "bubblewrap" and sandboxed != "bubblewrap":
        pytest.skip("bubblewrap is not installed")
    with Sandbox(backend=request.param) as sandbox:
        yield sandbox


def alive(pid: int) -> set[int]:
    """Processes under a process, those that have ended but are not collected included."""
    return {p.pid for p in psutil.Process(pid).children(recursive=True)}


def test_the_suite_is_large():
    assert len(REFUSED) + len(STOPPED) + len(CHEATS) >= 100


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, box, monkeypatch):
    monkeypatch.setenv("NBKIT_SECRET", "SECRET")
    program = PRELUDE + REFUSED[name] + "\nheld()\n"
    program = program.replace("@REPOSITORY@", repr(REPOSITORY)).replace(
        "@PARENT@", str(os.getpid())
    )
    result = run_code(program, stdin="SECRET", timeout_s=10, memory_mb=1024, sandbox=box)
    assert "BROKEN" not in result.stdout, result.stdout
    assert result.stdout.split() == ["HELD"], result
    assert result.status == "ok", result


@pytest.mark.parametrize("name", STOPPED)
def test_stopped(name, sandboxed):
    program, statuses = STOPPED[name]
    before, memory = alive(os.getpid()), psutil.Process().memory_info().rss
    start = time.monotonic()
    result = run_code(program, timeout_s=1, memory_mb=256, max_output=65536)
    assert time.monotonic() - start < 5
    assert result.status in statuses, result
    assert len(result.stdout.encode()) + len(result.stderr.encode()) <= 3 * 65536
    assert psutil.Process().memory_info().rss - memory < 64 * 2**20
    assert alive(os.getpid()) <= before  # nothing survives, not even as a zombie
    assert run_code("print(1)").stdout == "1\n"  # the host still answers


@pytest.mark.parametrize("name", CHEATS)
def test_no_reward(name, sandboxed):
    before = alive(os.getpid())
    assert code_score(CHEATS[name], TESTS, timeout_s=1.5) == 0.0
    assert alive(os.getpid()) <= before


def test_the_honest_solution_passes_the_same_tests():
    assert code_score("def add(a, b): return a + b", TESTS) == 1.0
