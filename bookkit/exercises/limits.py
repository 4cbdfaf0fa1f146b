"""A limit on the processor time of code that may loop for ever, or wait for ever.

The clock says nothing on a busy machine, so what counts is the processor time of this process and
of those that it has started. Code that uses none for long is taken to hang.
"""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import psutil

IDLE_SECONDS = 60.0  # of the clock
IDLE_WORK = 0.05  # seconds of processor time; less than this is none
LOOK_SECONDS = 0.2  # of the clock, between two looks; a short limit is looked at more often
# To the next exception, if the block goes on: Python drops one that is raised within a callback, as
# of the garbage collector, and code may catch everything.
AGAIN_SECONDS = 1.0


class TimeLimitReached(BaseException):
    """The learner's code used up its processor time, or hangs; then ``hangs`` is true.

    Not an ``Exception``, so that ``except Exception`` in that code cannot swallow it.
    """

    @property
    def hangs(self) -> bool:
        """Whether it waited for something, and computed nothing."""
        return bool(str(self))


def processor_seconds() -> float:
    """Of this process, and of those that it has started and waited for."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


@contextmanager
def time_limit(seconds: float, idle_seconds: float = IDLE_SECONDS) -> Iterator[None]:
    """Raise :class:`TimeLimitReached` inside the block once it has used up ``seconds``.

    In the main thread of a POSIX system the looks are an interval timer's, which also interrupts
    blocking calls; an outer timer (a test runner's) is put back afterwards. Elsewhere the exception
    is injected between two Python instructions.

    Args:
        seconds: of processor time, of this process and of all that it has started.
        idle_seconds: of the clock, in which it may compute nothing.
    """
    posix = sys.platform != "win32"
    watch = _Watch(seconds, idle_seconds)
    every = min(LOOK_SECONDS, max(seconds / 2, 5e-3))
    if posix and threading.current_thread() is threading.main_thread():
        with _by_signal(watch, every):
            yield
    else:
        with _by_injection(watch, every):
            yield


class _Watch:
    """What a block has used since it began, and whether it still computes."""

    def __init__(self, seconds: float, idle_seconds: float) -> None:
        self._seconds, self._idle_seconds = seconds, idle_seconds
        self._began = processor_seconds()
        self._worked, self._since = 0.0, time.monotonic()
        # What the processes that run already have used before the first look is not the block's;
        # what it starts itself is missed for as long at most.
        self._before: dict[tuple[int, float], float] | None = None

    def verdict(self) -> TimeLimitReached | None:
        """The exception to raise; None while all is well."""
        used = processor_seconds() - self._began
        if used <= self._seconds:
            used += self._of_the_living()
        now = time.monotonic()
        if used - self._worked >= IDLE_WORK:
            self._worked, self._since = used, now
        if used > self._seconds:
            return TimeLimitReached()
        if now - self._since > self._idle_seconds:
            return TimeLimitReached(f"it computed nothing for {self._idle_seconds:g} s")
        return None

    def _of_the_living(self) -> float:
        """Seconds of the processes below this one that are not waited for yet."""
        found: dict[tuple[int, float], float] = {}
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # it ends just now
                times = child.cpu_times()
                found[child.pid, child.create_time()] = times.user + times.system
        if self._before is None:
            self._before = found
        return sum(used - self._before.get(key, 0.0) for key, used in found.items())


@contextmanager
def _by_signal(watch: _Watch, every: float) -> Iterator[None]:
    def look(_number: int, _frame: FrameType | None) -> None:
        reached = watch.verdict()
        if reached is not None:
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS, AGAIN_SECONDS)
            raise reached

    started = time.monotonic()
    handler = signal.signal(signal.SIGALRM, look)
    outer_delay, outer_interval = signal.setitimer(signal.ITIMER_REAL, every, every)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if outer_delay:
            left = max(outer_delay - (time.monotonic() - started), 1e-3)
            signal.setitimer(signal.ITIMER_REAL, left, outer_interval)


@contextmanager
def _by_injection(watch: _Watch, every: float) -> Iterator[None]:
    target = ctypes.c_ulong(threading.get_ident())
    lock = threading.Lock()
    done = threading.Event()

    def look() -> None:
        pause = every
        while not done.wait(pause):
            reached = watch.verdict()
            if reached is not None:
                pause = AGAIN_SECONDS
                with lock:
                    if not done.is_set():
                        _inject(target, reached)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        with lock:
            done.set()


def _inject(target: ctypes.c_ulong, reached: TimeLimitReached) -> None:
    """Let a thread raise it; the interpreter makes the exception from a class without arguments."""
    kind = type(
        "TimeLimitReached", (TimeLimitReached,), {"__str__": lambda _, said=str(reached): said}
    )
    ctypes.pythonapi.PyThreadState_SetAsyncExc(target, ctypes.py_object(kind))
