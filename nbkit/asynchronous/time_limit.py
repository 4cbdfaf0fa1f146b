"""A limit on the time of a call in the main thread, for reward functions that wait for ever.

A timer of the operating system interrupts what runs in Python or waits in the kernel. Code in C
that neither returns nor waits is not interrupted; the trainer's own limit ends the whole generator
then.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from nbkit._inputs import check_number

AGAIN_S = 1.0  # to the next interruption, if the call caught the first


class OverTimeError(BaseException):
    """Time was up. No ``Exception``, so that what is interrupted does not take it for its own."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise ``OverTimeError`` in the body once `seconds` have passed.

    Args:
        seconds: by the clock, above 0.

    Raises:
        ValueError: no time at all.
        RuntimeError: not called in the main thread, to which signals go.

    """
    check_number("seconds", seconds, 0.0, open_low=True)
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("time_limit works in the main thread of a process only")

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise OverTimeError(f"over {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
