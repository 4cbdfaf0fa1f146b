"""Runs commands side by side, shows their lines as they come, and leaves no process behind."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

GRACE_SECONDS = 10.0


@dataclass(frozen=True)
class Job:
    """One command to run.

    Attributes:
        name: how lists and messages call it.
        command: the program and its arguments.
        folder: where it runs.
        environment: its whole environment.
        exclusive: whether nothing else may run beside it.
        limit_seconds: when it is ended.
    """

    name: str
    command: Sequence[str]
    folder: Path
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    exclusive: bool = False
    limit_seconds: float = 1800.0


@dataclass(frozen=True)
class Outcome:
    """How a job ended: exit status, wall-clock seconds, everything that it printed."""

    job: Job
    status: int
    seconds: float
    log: str
    timed_out: bool = False

    @property
    def passed(self) -> bool:
        """Whether it ended by itself with exit status 0."""
        return self.status == 0 and not self.timed_out


LineHandler = Callable[[Job, str], None]
OutcomeHandler = Callable[[Outcome], None]


def run_jobs(
    jobs: Sequence[Job],
    workers: int,
    *,
    on_line: LineHandler = lambda job, line: None,
    on_outcome: OutcomeHandler = lambda outcome: None,
) -> list[Outcome]:
    """Run jobs, `workers` at a time; the exclusive ones alone, after the others.

    Args:
        jobs: what to run.
        workers: how many at a time, at least 1.
        on_line: called with every line that a job prints, from the job's thread.
        on_outcome: called as each job ends, from this thread.

    Returns:
        The outcomes in the order of `jobs`. An interruption ends every running job and goes on up.
    """
    outcomes: dict[str, Outcome] = {}
    running = _Running()
    for group, width in (
        ([job for job in jobs if not job.exclusive], workers),
        ([job for job in jobs if job.exclusive], 1),
    ):
        with ThreadPoolExecutor(max(1, width)) as pool:
            try:
                waiting: set[Future[Outcome]] = {
                    pool.submit(_run, job, running, on_line) for job in group
                }
                while waiting:
                    done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    for future in done:
                        outcome = future.result()
                        outcomes[outcome.job.name] = outcome
                        on_outcome(outcome)
            except BaseException:
                running.close()
                pool.shutdown(cancel_futures=True)
                raise
    return [outcomes[job.name] for job in jobs]


class _Running:
    """The processes that run now, so that an interruption can end them all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[str]] = set()
        self._closed = False

    def start(self, job: Job) -> subprocess.Popen[str] | None:
        with self._lock:
            if self._closed:
                return None
            process = subprocess.Popen(
                list(job.command),
                cwd=job.folder,
                env=job.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
            self._processes.add(process)
            return process

    def forget(self, process: subprocess.Popen[str]) -> None:
        with self._lock:
            self._processes.discard(process)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            processes = list(self._processes)
        for process in processes:
            _end(process)


def _run(job: Job, running: _Running, on_line: LineHandler) -> Outcome:
    started = time.monotonic()
    process = running.start(job)
    if process is None:
        return Outcome(job, -1, 0.0, "interrupted before it began")
    late = threading.Event()

    def stop() -> None:
        late.set()
        _end(process)

    timer = threading.Timer(job.limit_seconds, stop)
    timer.daemon = True
    timer.start()
    lines = []
    assert process.stdout is not None
    try:
        for line in process.stdout:
            lines.append(line)
            on_line(job, line.rstrip("\n"))
        status = process.wait()
    finally:
        timer.cancel()
        _end_group(process, signal.SIGKILL)
        running.forget(process)
    if late.is_set():
        lines.append(f"ended after its limit of {job.limit_seconds:.0f} s\n")
    return Outcome(job, status, time.monotonic() - started, "".join(lines), late.is_set())


def _end(process: subprocess.Popen[str]) -> None:
    """Ask a process and its group to end, and make them after a while."""
    _end_group(process, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECONDS)
    _end_group(process, signal.SIGKILL)


def _end_group(process: subprocess.Popen[str], how: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, how)
