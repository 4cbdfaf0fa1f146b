"""A time limit for code that may loop for ever."""

import ctypes
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TimeLimitReached(BaseException):
    """The learner's code ran out of time.

    Not an ``Exception``, so that ``except Exception`` in that code cannot swallow it.
    """


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise :class:`TimeLimitReached` inside the block after ``seconds``.

    In the main thread of a POSIX system this is an interval timer, which also interrupts blocking
    calls; an outer timer (a test runner's) is put back afterwards. Elsewhere the exception is
    injected between two Python instructions.
    """
    posix = sys.platform != "win32"
    if posix and threading.current_thread() is threading.main_thread():
        with _by_signal(seconds):
            yield
    else:
        with _by_injection(seconds):
            yield


@contextmanager
def _by_signal(seconds: float) -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TimeLimitReached

    started = time.monotonic()
    handler = signal.signal(signal.SIGALRM, stop)
    outer_delay, outer_interval = signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if outer_delay:
            left = max(outer_delay - (time.monotonic() - started), 1e-3)
            signal.setitimer(signal.ITIMER_REAL, left, outer_interval)


@contextmanager
def _by_injection(seconds: float) -> Iterator[None]:
    target = ctypes.c_ulong(threading.get_ident())
    lock = threading.Lock()
    done = False

    def stop() -> None:
        with lock:
            if not done:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    target, ctypes.py_object(TimeLimitReached)
                )

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            done = True
        timer.cancel()
