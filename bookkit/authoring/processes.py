"""Functions side by side, each in a fresh process of one thread: the one pool of the book."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import TypeVar

K = TypeVar("K")
T = TypeVar("T")
THREADS = "OMP_NUM_THREADS"


class TaskError(RuntimeError):
    """A task failed, or its process died; the message names it and says how."""


def in_processes(
    tasks: Mapping[K, Callable[[], T]], jobs: int, *, name: Callable[[K], str] = str
) -> Iterator[tuple[K, T]]:
    """Yield each task's key and result as it ends; the first tasks begin first.

    Args:
        tasks: by key. With several jobs a function of a module with its arguments
            (``functools.partial``), for it goes to another process.
        jobs: how many at a time, each in a process of its own; 1: all in this one, in order.
        name: what a message calls the task of a key.

    Raises:
        TaskError: a task raised, or its process was killed. None begins after it; what runs
            beside it ends first and is yielded.

    """
    if jobs <= 1:
        for key, task in tasks.items():
            try:
                result = task()
            except Exception as error:
                raise _failure(name(key), error) from error
            yield key, result
        return
    failed: tuple[K, BaseException] | None = None
    # A process for each task, which a thread waits for: should it die, its task alone is lost.
    with _one_thread(), ThreadPoolExecutor(jobs) as starters:
        keys: dict[Future[T], K] = {starters.submit(_run, task): key for key, task in tasks.items()}
        try:
            for future in as_completed(keys):
                if future.cancelled():
                    continue
                raised = future.exception()
                if raised is None:
                    yield keys[future], future.result()
                elif failed is None:
                    failed = keys[future], raised
                    _cancel(keys)
        finally:
            _cancel(keys)
    if failed is not None:
        raise _failure(name(failed[0]), failed[1]) from failed[1]


def _run(task: Callable[[], T]) -> T:
    context = multiprocessing.get_context("spawn")  # nothing of this process is carried over
    with ProcessPoolExecutor(1, mp_context=context) as process:
        return process.submit(task).result()


def _cancel(futures: Mapping[Future[T], K]) -> None:
    """Let nothing begin that has not begun."""
    for future in futures:
        future.cancel()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Libraries read the number of their threads from the environment when they are loaded."""
    before = os.environ.get(THREADS)
    os.environ[THREADS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[THREADS]
        else:
            os.environ[THREADS] = before


def _failure(name: str, error: BaseException) -> TaskError:
    return TaskError(f"{name} failed: {type(error).__name__}: {error}")
