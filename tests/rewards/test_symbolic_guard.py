"""The guard of the symbolic verifier: in threads and processes, in bounded time (D17)."""

import asyncio
import multiprocessing
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from nbkit.rewards import math_score, symbolic

ROOT = Path(__file__).resolve().parents[2]
SYMBOLIC = ("\\boxed{\\sqrt{8}}", "2\\sqrt{2}")
WRONG = ("\\boxed{\\sqrt{8}}", "3\\sqrt{2}")


def score(completion: str, gold: str) -> float:
    return math_score(completion, gold, style="boxed")


def both(_: int = 0) -> tuple[float, float, float]:
    return score("\\boxed{5}", "5"), score(*SYMBOLIC), score(*WRONG)


def test_in_threads():
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(both, range(12))) == [(1.0, 1.0, 0.0)] * 12


def test_in_asyncio():
    async def main():
        return await asyncio.gather(*(asyncio.to_thread(both) for _ in range(4)))

    assert asyncio.run(main()) == [(1.0, 1.0, 0.0)] * 4


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "fork"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_in_worker_processes(method):
    """Fork after the parent has a worker: the child must not talk to it."""
    both()
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        results = [pool.submit(both) for _ in range(6)]
        ours = [both() for _ in range(3)]
        assert [r.result(timeout=300) for r in results] == [(1.0, 1.0, 0.0)] * 6
    assert ours == [(1.0, 1.0, 0.0)] * 3


@pytest.fixture
def slow_worker(monkeypatch):
    """A verifier whose comparisons last a minute, without letting go of the interpreter."""
    symbolic.close()
    slow = "import nbkit.rewards.equality as e; e.equal = lambda *_: sum(range(3*10**9)); "
    program = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    monkeypatch.setattr(
        symbolic,
        "_PROGRAM",
        program + slow + "from nbkit.rewards.symbolic_worker import main; main()",
    )
    yield
    symbolic.close()


def test_overrun_is_bounded_counted_and_leaves_nothing(slow_worker):
    before = symbolic.STATISTICS.timeouts
    children = {p.pid for p in psutil.Process().children()}
    symbolic._give(symbolic._take())  # the start is not part of the limit
    start = time.monotonic()
    assert math_score("\\boxed{x}", "y", style="boxed", timeout_s=0.3) == 0.0
    assert time.monotonic() - start < 20  # the comparison itself lasts a minute and more
    assert symbolic.STATISTICS.timeouts == before + 1
    assert {p.pid for p in psutil.Process().children()} <= children


@pytest.mark.parametrize(
    "answer",
    [
        "9^{9^{9^{9}}}",
        "2^{2^{1000}}",
        "10^{10^{10}}",
        "((10^9)!)!",
        "x^{99999999}",
        r"\sum_{i=1}^{10^{9}} i^i",
        "(" * 500 + "1" + ")" * 500,
        r"\sqrt{" * 60 + "2" + "}" * 60,
        "9" * 900 + "+x",
        r"\int_0^{\infty} \frac{\sin(x^x)}{x!} dx",
        "+".join(f"x^{{{i}}}" for i in range(100)),
    ],
)
def test_hostile_answers_score_zero_in_bounded_time(answer):
    start = time.monotonic()
    result = math_score(f"\\boxed{{{answer}}}", "2x + y", style="boxed", timeout_s=0.5)
    assert result == 0.0
    assert time.monotonic() - start < 60
    assert score(*SYMBOLIC) == 1.0


def test_internal_error_is_raised_and_counted(monkeypatch):
    symbolic.close()
    before = symbolic.STATISTICS.errors
    program = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    fault = "import nbkit.rewards.equality as e\ndef f(*_): raise KeyError('fault')\ne.equal = f\n"
    start = "from nbkit.rewards.symbolic_worker import main; main()"
    monkeypatch.setattr(symbolic, "_PROGRAM", program + fault + start)
    with pytest.raises(symbolic.VerifierError, match="KeyError: 'fault'"):
        score("\\boxed{x}", "y")
    symbolic.close()
    monkeypatch.setattr(symbolic, "_PROGRAM", program + "raise SystemExit")
    with pytest.raises(symbolic.VerifierError, match="does not start"):
        score("\\boxed{x}", "y")
    assert symbolic.STATISTICS.errors == before + 2


def test_worker_that_was_killed_is_replaced_or_raises():
    worker = symbolic._take()
    worker.process.kill()
    worker.process.wait()
    symbolic._give(worker)
    assert score(*SYMBOLIC) == 1.0  # found dead before use: replaced

    worker = symbolic._take()
    threading.Timer(0.2, worker.process.kill).start()
    with pytest.raises((EOFError, OSError, TimeoutError)):
        worker.ask({"answer": "x", "gold": "y"}, 5.0)
        worker.ask({"answer": "x", "gold": "y"}, 0.0)
        time.sleep(0.5)
        worker.ask({"answer": "x", "gold": "y"}, 5.0)
    worker.stop()


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.slow
def test_no_descriptor_is_leaked():
    score(*SYMBOLIC)
    before = open_descriptors()
    for _ in range(2):
        symbolic.close()
        score(*SYMBOLIC)
    assert open_descriptors() <= before


@pytest.mark.slow
def test_workers_end_with_a_killed_parent():
    program = textwrap.dedent("""
        import os, signal
        from nbkit.rewards import math_score, symbolic
        math_score("\\\\boxed{x}", "y", style="boxed")
        print(symbolic._idle[0].process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=300
    )
    pid = int(done.stdout)
    end = time.monotonic() + 100
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_importing_the_package_is_light():
    program = "import sys, nbkit.rewards, nbkit.rewards.text; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0
    for heavy in ("sympy", "torch", "math_verify", "reasoning_gym"):
        assert f"'{heavy}'" not in done.stdout
