"""The time limit, in the main thread and beside it."""

import signal
import subprocess
import sys
import threading
import time

import pytest

from bookkit.exercises.limits import TimeLimitReached, time_limit


def loop() -> None:
    while True:
        pass


def test_loop_is_stopped() -> None:
    with pytest.raises(TimeLimitReached), time_limit(0.2):
        loop()


def test_sleep_is_stopped_in_the_main_thread() -> None:
    started = time.monotonic()
    with pytest.raises(TimeLimitReached), time_limit(0.2):
        time.sleep(300)
    assert time.monotonic() - started < 100


def test_loop_is_stopped_in_another_thread() -> None:
    outcome: list[str] = []

    def work() -> None:
        try:
            with time_limit(0.2):
                loop()
        except TimeLimitReached:
            outcome.append("stopped")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(100)
    assert outcome == ["stopped"]


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
