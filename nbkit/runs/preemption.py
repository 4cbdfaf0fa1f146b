"""A job is told to stop: the signal is noted, and the training loop looks between two steps.

Slurm sends SIGUSR1 some minutes before the time is up (``--signal``) and SIGTERM when it wants the
nodes back. A signal can come at any instruction, so the handler only writes down which it was. A
signal can also get lost, for one while Python still starts; so the launcher leaves a file ``STOP``
in the run folder as well. ``touch RUN/STOP`` is also how a person ends a run in good order.
A run can also ask itself, when its steps teach nothing (``limits``).
What happens while the loop is in a long evaluation stands in ``last_step``.
"""

import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGUSR1, signal.SIGTERM)
STOP = "STOP"


class Preemption:
    """Whether this process has been asked to stop.

    Args:
        stop_file: its existence asks too; None: signals only.

    """

    def __init__(self, stop_file: Path | None = None) -> None:
        self.stop_file = stop_file
        self._signal: str | None = None
        self._before: dict[int, Any] = {}

    def install(self) -> None:
        """Take over the signals; only the main thread can, and elsewhere the file must do."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}

    def restore(self) -> None:
        """Give the signals back to whoever had them."""
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before = {}

    @property
    def reason(self) -> str | None:
        """What asked to stop: a signal's name, "STOP file", the run's own reason, or None."""
        if self._signal is None and self.stop_file is not None and self.stop_file.exists():
            return "STOP file"
        return self._signal

    def ask(self, reason: str) -> None:
        """Ask from inside; a signal that came before keeps its name."""
        self._signal = self._signal or reason

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._signal = signal.Signals(number).name


class Preempted(SystemExit):
    """The run was asked to stop, has saved its checkpoint, and leaves the program.

    The status is 75 ("try again later", sysexits.h). Under a launcher it is 0, because a launcher
    takes any other for a crash and kills the ranks that still write; the run folder's ``state``
    tells the script around it.
    """

    STATUS = 75

    def __init__(self, reason: str, step: int, *, launched: bool) -> None:
        super().__init__(0 if launched else self.STATUS)
        self.reason, self.step = reason, step

    def __str__(self) -> str:
        """Say what happened."""
        saved = "the checkpoint is saved" if self.step else "there is no checkpoint yet"
        return f"stopped after step {self.step} ({self.reason}); {saved}"
