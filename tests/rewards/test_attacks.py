"""The attack suite: none of its programs may get out, stay alive, or get a reward."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pyseccomp
import pytest

from nbkit.rewards import code_score, run_code
from nbkit.rewards._view import interpreter
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
    # What another limit ends has time enough to reach it, on a slow machine too.
    limit_s = 0.5 if "timeout" in statuses else 50
    result = run_code(program, timeout_s=limit_s, memory_mb=256, max_output=65536)
    assert time.monotonic() - start < 60
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


@pytest.fixture
def other_user():
    """A command that runs Python as a user without powers, from copies that this user can read."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None:
        pytest.skip("only root can try what another user can do (and the other tests already do)")
    folder = Path(tempfile.mkdtemp(prefix="nbkit-user-"))
    prefix = Path(interpreter()).parents[1]
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    unread = shutil.ignore_patterns("*-packages", "test", "__pycache__", "idlelib")
    (folder / "bin").mkdir()
    shutil.copy(interpreter(), folder / "bin" / "python3")
    shutil.copytree(prefix / "lib" / version, folder / "lib" / version, ignore=unread)
    for library in (prefix / "lib").glob("libpython*.so*"):
        shutil.copy(library, folder / "lib")
    shutil.copytree(Path(REPOSITORY) / "nbkit", folder / "site" / "nbkit", ignore=unread)
    shutil.copy(Path(REPOSITORY) / "tests/rewards/attacks.py", folder / "site")
    shutil.copy(pyseccomp.__file__, folder / "site")
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o444))
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(folder / "site")}
    environment["LD_LIBRARY_PATH"] = str(folder / "lib")
    user = ["--reuid", "65534", "--regid", "65534", "--clear-groups"]
    yield [setpriv, *user, str(folder / "bin" / "python3")], environment
    shutil.rmtree(folder)


UNPRIVILEGED = """
import json, sys
from attacks import PRELUDE, REFUSED
from nbkit.rewards import code_score, run_code
from nbkit.rewards.sandbox import Sandbox
found = {"layers": [], "wrong": []}
for number, (name, program) in enumerate(REFUSED.items()):
    backend = ("bubblewrap", "namespaces")[number % 2]
    program = PRELUDE + program + "\\nheld()\\n"
    program = program.replace("@REPOSITORY@", repr(sys.argv[1])).replace("@PARENT@", "1000")
    result = run_code(program, timeout_s=20, memory_mb=1024, sandbox=Sandbox(backend=backend))
    if result.stdout.split() != ["HELD"]:
        found["wrong"].append([name, repr(result)])
found["layers"] = result.layers
found["bomb"] = run_code("import os\\nwhile True: os.fork()", timeout_s=2).status
found["score"] = code_score("def f(): return 1", "assert f() == 1")
print(json.dumps(found))
"""


def test_a_user_without_powers_is_protected_as_well(other_user, sandboxed):
    """The layers that need no root: a user namespace in place of another user id."""
    command, environment = other_user
    if sandboxed != "bubblewrap":
        pytest.skip("bubblewrap is not installed")
    done = subprocess.run(
        [*command, "-c", UNPRIVILEGED, REPOSITORY],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert "user namespace" in found["layers"]
    assert found["bomb"] in ("killed", "timeout", "error")
    assert found["score"] == 1.0
