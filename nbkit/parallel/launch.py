"""Several processes on this machine, from a test or a notebook: results come back, none is left."""

import contextlib
import gc
import itertools
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from nbkit.parallel.ports import reserved_port
from nbkit.parallel.world import leave

_CALLS = itertools.count()  # two calls at once, from two threads, take different ports


class RanksFailedError(RuntimeError):
    """A process failed, was killed, or ran over the limit; the message holds each one's end."""


def run_ranks(
    function: Callable[..., Any],
    size: int,
    *arguments: Any,
    timeout_s: float = 60.0,
    start: str = "forkserver",
    preload: Sequence[str] = ("nbkit.parallel",),
    environment: Mapping[str, str] | None = None,
) -> list[Any]:
    """Call ``function(*arguments)`` in `size` processes; return what each returned, by rank.

    Each finds RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT in its environment, as
    under `torchrun`, so that ``nbkit.parallel.join`` works. When one fails the others are stopped,
    and every process, with all that it started, has ended when this returns.

    Args:
        function: importable by name; or any function, with start="fork".
        size: number of processes.
        arguments: handed to each.
        timeout_s: of the whole call.
        start: "forkserver" (a clean process, whatever this one has done before) or "fork" (a copy
            of this one, so that functions of a notebook can be used; on a CPU only).
        preload: modules that the fork server imports once for all its children; what the first
            call of a program names holds for all.
        environment: variables that the processes find besides those of this one.

    Raises:
        RanksFailedError: with what each process said.

    """
    context: Any = get_context(start)
    if start == "forkserver":
        context.set_forkserver_preload(list(preload))
    start_port = os.getpid() + next(_CALLS)
    with tempfile.TemporaryDirectory() as folder, reserved_port(start_port) as port:
        variables = {**os.environ, **(environment or {})}
        started = [
            context.Process(
                target=_child,
                args=(function, arguments, rank, size, port, folder, variables),
            )
            for rank in range(size)
        ]
        try:
            for process in started:
                process.start()
            in_time = _wait(started, time.monotonic() + timeout_s)
            ends = [process.exitcode for process in started]  # None: has not ended by itself
        finally:
            for process in started:
                _end(process)
        why = "a rank failed" if in_time else f"after {timeout_s:g} s time was up"
        return _collect(ends, Path(folder), why)


def _child(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    rank: int,
    size: int,
    port: int,
    folder: str,
    environment: dict[str, str],
) -> None:
    os.setpgid(0, 0)  # what this process starts is ended with it
    gc.freeze()  # what the server imported lives on; no collection need look through it here
    os.environ.update(environment)
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(size),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    out = Path(folder)
    try:
        result = pickle.dumps(function(*arguments))
        (out / f"{rank}.new").write_bytes(result)
        (out / f"{rank}.new").rename(out / f"{rank}.result")
    except BaseException:
        (out / f"{rank}.error").write_text(traceback.format_exc())
        sys.stderr.flush()
        os._exit(1)
    finally:
        leave()


def _wait(started: list[Any], deadline: float) -> bool:
    """Until all have ended or one has failed, and the others had a second; False: time was up."""
    while any(process.is_alive() for process in started):
        if time.monotonic() >= deadline:
            return False
        if any(process.exitcode for process in started):
            _let_end(started, time.monotonic() + 1.0)
            return True
        time.sleep(0.02)
    return True


def _let_end(started: list[Any], deadline: float) -> None:
    while any(process.is_alive() for process in started) and time.monotonic() < deadline:
        time.sleep(0.02)


def _end(process: Any) -> None:
    if process.pid is None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.join(10)


def _collect(codes: list[int | None], folder: Path, why: str) -> list[Any]:
    ends = []
    for rank, code in enumerate(codes):
        error = folder / f"{rank}.error"
        if error.exists():
            ends.append(f"rank {rank} raised:\n{error.read_text()[-8000:]}")
        elif not (folder / f"{rank}.result").exists():
            ends.append(f"rank {rank} {_end_of(code)}")
    if ends:
        raise RanksFailedError(f"{why}:\n" + "\n".join(ends))
    # Written by our own children a moment ago, in a folder that only we can enter.
    return [pickle.loads((folder / f"{rank}.result").read_bytes()) for rank in range(len(codes))]


def _end_of(code: int | None) -> str:
    if code is None:
        return "was stopped without a result"
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended without a result (exit code {code})"
