"""The limit on processor time, in the main thread and beside it."""

import gc
import signal
import subprocess
import sys
import threading
import time

import pytest

from bookkit.exercises.limits import TimeLimitReached, processor_seconds, time_limit


def loop() -> None:
    while True:
        pass


def test_loop_is_stopped() -> None:
    with pytest.raises(TimeLimitReached), time_limit(0.2):
        loop()


def test_a_hang_is_stopped_in_the_main_thread() -> None:
    started = time.monotonic()
    with pytest.raises(TimeLimitReached) as reached, time_limit(100.0, idle_seconds=0.3):
        time.sleep(300)
    assert time.monotonic() - started < 100
    assert reached.value.hangs


@pytest.mark.parametrize(("code", "hangs"), [(loop, False), (lambda: wait(60), True)])
def test_another_thread_is_stopped(code, hangs: bool) -> None:
    outcome: list[bool] = []

    def work() -> None:
        try:
            with time_limit(0.5, idle_seconds=1.0):
                code()
        except TimeLimitReached as reached:
            outcome.append(reached.hangs)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(100)
    assert outcome == [hangs]


def wait(seconds: float) -> None:
    """Wait in small pieces: between two of them an exception of another thread can come in."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.2)


def test_waiting_costs_nothing() -> None:
    """As a machine does that has no time for this process: the clock runs, and nothing else."""
    with time_limit(0.3):
        time.sleep(1.0)


CHILD = "import time\nwhile time.process_time() < 60: pass"


def test_processes_that_the_code_starts_count() -> None:
    children: list[subprocess.Popen[bytes]] = []
    try:
        with pytest.raises(TimeLimitReached) as reached, time_limit(1.0):
            children += [subprocess.Popen([sys.executable, "-c", CHILD]) for _ in range(2)]
            children[0].wait()
        assert not reached.value.hangs
    finally:
        for child in children:
            child.kill()
            child.wait()


def test_what_others_have_used_before_does_not_count() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD.replace("60", "0.5")], check=True)
    assert done.returncode == 0
    before = processor_seconds()
    assert before > 0.5
    with time_limit(0.4):
        time.sleep(0.5)
    assert processor_seconds() - before < 0.4


def test_an_exception_that_is_lost_in_a_callback_comes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Libraries hang functions onto the garbage collector; what is raised in them is dropped."""
    lost = []

    def slow(phase: str, _info: dict[str, int]) -> None:
        until = time.process_time() + 0.4
        while not lost and time.process_time() < until:
            pass
        lost.append(phase)

    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: seen.append(args.exc_type.__name__))
    gc.callbacks.append(slow)
    try:
        with pytest.raises(TimeLimitReached), time_limit(0.2):
            while True:
                gc.collect(0)
    finally:
        gc.callbacks.remove(slow)
    assert set(seen) == {"TimeLimitReached"}


def test_code_that_catches_everything_is_ended_all_the_same() -> None:
    caught = []
    with pytest.raises(TimeLimitReached), time_limit(0.2):
        try:
            loop()
        except BaseException as error:
            caught.append(error)
        loop()
    assert len(caught) == 1


def test_quick_code_is_left_alone() -> None:
    with time_limit(0.5):
        pass
    time.sleep(0.6)


def test_an_outer_timer_is_put_back() -> None:
    before = signal.getsignal(signal.SIGALRM)
    outer = signal.setitimer(signal.ITIMER_REAL, 1000.0)
    try:
        with time_limit(0.5):
            pass
        left, _ = signal.getitimer(signal.ITIMER_REAL)
        assert 900 < left <= 1000
        assert signal.getsignal(signal.SIGALRM) is before
    finally:
        signal.setitimer(signal.ITIMER_REAL, *outer)


BROKEN_OFF = """
import torch
import bookkit.exercises.observe
from bookkit.exercises.limits import TimeLimitReached, time_limit

try:
    with time_limit(0.15):
        torch.testing.assert_close(torch.ones(1), torch.ones(1))
except TimeLimitReached:
    pass
torch.testing.assert_close(torch.ones(1), torch.ones(1))
"""


@pytest.mark.slow
def test_a_comparison_out_of_time_leaves_the_kernel_whole() -> None:
    """The first one imports sympy, which is half there if that is broken off."""
    done = subprocess.run([sys.executable, "-c", BROKEN_OFF], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
