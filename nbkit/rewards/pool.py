"""Many programs at once: threads that drive sandboxes, and sandboxes that wait.

A sandbox is used for one program and thrown away, so nothing passes from one program to the next.
The pool starts the next ones while nobody waits for them; a program then finds its interpreter
already running.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from nbkit.rewards.code import code_score
from nbkit.rewards.sandbox import CodeResult, Sandbox, run_code

T = TypeVar("T")


class SandboxPool:
    """Runs and scores programs side by side; use it in a ``with`` statement, or close it.

    Args:
        workers: programs at once; the number of processors if left out. Each has its own limits,
            and one that hangs holds up one worker for its ``timeout_s``.
        spare: sandboxes that wait, started beforehand.
        allow_unprotected: as in ``run_code``.

    Raises:
        SandboxUnavailableError: below the minimum of protection, at once.

    """

    def __init__(
        self, workers: int | None = None, *, spare: int = 2, allow_unprotected: bool = False
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be at least 1; got {workers}")
        if spare < 0:
            raise ValueError(f"spare must not be negative; got {spare}")
        self.allow_unprotected, self.spare = allow_unprotected, spare
        self._waiting: list[Sandbox] = []
        self._lock = threading.Lock()
        self._closed = False
        self._work = 0  # programs submitted and not yet done
        count = workers or len(os.sched_getaffinity(0))
        # The sandboxes' life hangs on the thread that started them: these live as long as the pool.
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="sandbox")
        try:
            self._threads.submit(self._refill).result()
        except BaseException:
            self.close()
            raise

    def submit_run(self, code: str, **options: Any) -> Future[CodeResult]:
        """Start ``run_code(code, **options)``."""
        return self._submit(self._run, code, options)

    def submit_score(self, solution: str, tests: str, **options: Any) -> Future[float]:
        """Start ``code_score(solution, tests, **options)``."""
        return self._submit(self._score, solution, tests, options)

    def run(self, programs: Iterable[str], **options: Any) -> list[CodeResult]:
        """Return the result of every program, in order."""
        return [f.result() for f in [self.submit_run(code, **options) for code in programs]]

    def score(self, pairs: Iterable[tuple[str, str]], **options: Any) -> list[float]:
        """Return the score of every (solution, tests), in order."""
        started = [self.submit_score(code, tests, **options) for code, tests in pairs]
        return [future.result() for future in started]

    def close(self) -> None:
        """Let running programs end, drop those that have not begun, end what waits."""
        self._closed = True
        self._threads.shutdown(wait=True, cancel_futures=True)
        for sandbox in self._waiting:
            sandbox.close()
        self._waiting.clear()

    def __enter__(self) -> "SandboxPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _submit(self, function: Callable[..., T], *args: Any) -> Future[T]:
        future = self._threads.submit(function, *args)
        with self._lock:
            self._work += 1
        future.add_done_callback(self._done)
        return future

    def _done(self, _: Future[Any]) -> None:
        """With nothing left to do, start what the next programs will need."""
        with self._lock:
            self._work -= 1
            idle = self._work == 0 and not self._closed
        if idle:
            with contextlib.suppress(RuntimeError):  # closed meanwhile
                self._threads.submit(self._refill)

    def _run(self, code: str, options: dict[str, Any]) -> CodeResult:
        return self._with(1, lambda boxes: run_code(code, sandbox=boxes[0], **options))

    def _score(self, solution: str, tests: str, options: dict[str, Any]) -> float:
        def score(boxes: Sequence[Sandbox]) -> float:
            return code_score(solution, tests, sandboxes=(boxes[0], boxes[1]), **options)

        return self._with(2, score)

    def _with(self, count: int, use: Callable[[Sequence[Sandbox]], T]) -> T:
        boxes: list[Sandbox] = []
        try:
            boxes.extend(self._take() for _ in range(count))
            return use(boxes)
        finally:
            for box in boxes:
                box.close()

    def _take(self) -> Sandbox:
        with self._lock:
            if self._waiting:
                return self._waiting.pop(0)
        return Sandbox(allow_unprotected=self.allow_unprotected)

    def _refill(self) -> None:
        """Start sandboxes until enough wait; stop when there is work."""
        while not self._closed:
            with self._lock:
                if self._work or len(self._waiting) >= self.spare:
                    return
            sandbox = Sandbox(allow_unprotected=self.allow_unprotected)
            with self._lock:
                self._waiting.append(sandbox)
