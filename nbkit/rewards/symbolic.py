"""Symbolic equality behind a guard: in a process of its own, within a time, from any thread.

math-verify limits its time by a signal, which only the main thread may set; in a thread it fails,
and reward code that catches the failure scores every answer 0 (math-verify's issues 50 and 55).
Here the limit is the life of a worker process. A worker that overruns is killed and replaced.
"""

import atexit
import contextlib
import functools
import json
import os
import select
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

START_SECONDS = 60.0
MAX_IDLE = 2  # workers that wait for work; more may run at once, one a calling thread
_PROGRAM = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); " + (
    "from nbkit.rewards.symbolic_worker import main; main()"
)


class VerifierError(RuntimeError):
    """The verifier failed. The answer may be right or wrong: this sample has no reward."""


class GoldError(ValueError):
    """A reference that holds no answer, or none that can be read: the data are at fault."""


@dataclass
class Statistics:
    """Counts since the process began; read them beside the rewards.

    Attributes:
        comparisons: answers that were compared symbolically.
        timeouts: of these, answers that took too much time or memory and scored 0.
        errors: of these, comparisons that raised ``VerifierError``.

    """

    comparisons: int = 0
    timeouts: int = 0
    errors: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def count(self, name: str) -> None:
        """Add one."""
        with self.lock:
            setattr(self, name, getattr(self, name) + 1)


STATISTICS = Statistics()


def equal(answer: str, gold: str, *, timeout_s: float = 5.0, arithmetic: bool = False) -> bool:
    """Return whether two answers (LaTeX or plain) are the same, exactly.

    Args:
        answer: of the model. One that cannot be read, or compared in time, is not equal.
        gold: the reference.
        timeout_s: seconds of the clock for this comparison; the start of a worker not counted.
        arithmetic: take ``58+77`` for ``135``; see ``nbkit.rewards.equality.equal``.

    Raises:
        GoldError: the gold cannot be read.
        ValueError: the time is not positive.
        VerifierError: the worker failed or ended; counted in ``STATISTICS.errors``.

    """
    if not timeout_s > 0:
        raise ValueError(f"timeout_s must be positive; got {timeout_s}")
    STATISTICS.count("comparisons")
    reply = _ask({"answer": answer, "gold": gold, "arithmetic": arithmetic}, timeout_s)
    return reply is not None and bool(reply["equal"])


@functools.lru_cache(maxsize=4096)
def check_gold(gold: str, *, timeout_s: float = 5.0) -> None:
    """Raise ``GoldError`` where a reference cannot be read; each one is looked at once."""
    _ask({"gold": gold}, timeout_s)


def _ask(request: dict[str, Any], timeout_s: float) -> dict[str, object] | None:
    """The reply of a worker, or None where it took too much time or memory."""
    worker = _take()
    try:
        reply = worker.ask(request, timeout_s)
    except TimeoutError:
        worker.stop()
        STATISTICS.count("timeouts")
        return None
    except BaseException as error:
        worker.stop()
        if not isinstance(error, OSError | EOFError | ValueError):
            raise
        STATISTICS.count("errors")
        raise VerifierError(f"symbolic worker: {error or 'ended without an answer'}") from error
    if "exhausted" in reply:
        worker.stop()
        STATISTICS.count("timeouts")
        return None
    _give(worker)
    if "unreadable" in reply:
        raise GoldError(str(reply["unreadable"]))
    if "error" in reply:
        STATISTICS.count("errors")
        texts = " with ".join(repr(text[:80]) for text in request.values() if isinstance(text, str))
        raise VerifierError(f"comparing {texts}: {reply['error']}")
    return reply


class _Worker:
    """One worker process; used by one thread at a time."""

    def __init__(self) -> None:
        root = str(Path(__file__).resolve().parents[2])
        path = [root, *(entry for entry in sys.path if entry and entry != root)]
        self.pid = os.getpid()
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, json.dumps(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
        self._buffer = b""
        try:
            self._line(START_SECONDS)
        except (TimeoutError, EOFError) as error:
            self.stop()
            STATISTICS.count("errors")
            raise VerifierError(
                "symbolic worker does not start; are sympy and math-verify installed?"
            ) from error

    def ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, object]:
        """Send a request and wait for the reply; TimeoutError past the time."""
        assert self.process.stdin is not None
        message = memoryview(json.dumps(request).encode() + b"\n")
        while message:
            message = message[os.write(self.process.stdin.fileno(), message) :]
        reply = json.loads(self._line(timeout_s))
        if not isinstance(reply, dict):
            raise ValueError(f"reply is no object: {reply!r}")
        return reply

    def _line(self, timeout_s: float) -> bytes:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        end = time.monotonic() + timeout_s
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        while b"\n" not in self._buffer:
            left = end - time.monotonic()
            if left <= 0 or not poller.poll(left * 1000):
                raise TimeoutError
            data = os.read(descriptor, 65536)
            if not data:
                raise EOFError
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line

    def stop(self) -> None:
        """Kill and reap; close both pipes. In a fork of the owner only the pipes are closed."""
        if os.getpid() == self.pid:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


_idle: list[_Worker] = []
_lock = threading.Lock()


def _take() -> _Worker:
    while True:
        with _lock:
            worker = _idle.pop() if _idle else None
        if worker is None:
            return _Worker()
        if worker.process.poll() is None:
            return worker
        worker.stop()


def _give(worker: _Worker) -> None:
    with _lock:
        if len(_idle) < MAX_IDLE:
            _idle.append(worker)
            return
    worker.stop()


def close() -> None:
    """Stop the idle workers; the next comparison starts a new one."""
    with _lock:
        workers, _idle[:] = _idle[:], []
    for worker in workers:
        worker.stop()


def _after_fork() -> None:
    """A forked process owns none of its parent's workers: two owners would mix their replies."""
    global _lock
    _lock = threading.Lock()
    STATISTICS.lock = threading.Lock()
    for worker in _idle:
        for pipe in (worker.process.stdin, worker.process.stdout):
            assert pipe is not None
            pipe.close()
        worker.process.returncode = 0  # not this process's child: never to be waited for
    _idle.clear()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(close)
