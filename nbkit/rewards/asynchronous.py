"""Scoring beside generation: the verifier works on one batch while the model writes the next.

Verifiers spend their time in other processes (a symbolic worker, a sandbox), so threads are enough
to wait for them. A sample whose verifier fails has no reward: it comes back as invalid, to be
dropped by ``group_advantages(…, valid=…)``, and is counted.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Scores:
    """The rewards of a batch of B samples.

    Attributes:
        rewards: B numbers; NaN where there is none.
        valid: B flags; False where the verifier failed.
        errors: index of the sample to what its verifier raised.

    """

    rewards: list[float]
    valid: list[bool]
    errors: dict[int, Exception] = field(default_factory=dict)


class Pending:
    """A batch that is being scored."""

    def __init__(self, futures: Sequence[Future[float]], on_error: str) -> None:
        self._futures, self._on_error = futures, on_error

    def done(self) -> bool:
        """Whether every sample has been scored."""
        return all(future.done() for future in self._futures)

    def result(self, timeout_s: float | None = None) -> Scores:
        """Wait for the scores.

        Raises:
            TimeoutError: not all are there in ``timeout_s`` seconds; ask again later.
            Exception: what a verifier raised, if errors are raised.

        """
        _, left = wait(self._futures, timeout_s)
        if left:
            raise TimeoutError(f"{len(left)} of {len(self._futures)} samples are not scored yet")
        rewards, errors = [], {}
        for index, future in enumerate(self._futures):
            error = future.exception()
            if error is None:
                rewards.append(future.result())
                continue
            if self._on_error == "raise" or not isinstance(error, Exception):
                raise error
            errors[index] = error
            rewards.append(math.nan)
        return Scores(rewards, [index not in errors for index in range(len(rewards))], errors)

    def __await__(self) -> Any:
        """In a coroutine: ``scores = await pending``. The event loop goes on meanwhile."""
        return asyncio.to_thread(self.result).__await__()


class AsynchronousRewards:
    """Scores batches in threads; use it in a ``with`` statement, or close it.

    Args:
        score: called with one value of each column of a batch; returns the reward of the sample.
        workers: samples scored at once.
        on_error: ``"drop"`` (the sample becomes invalid and is counted in ``errors``) or
            ``"raise"`` (``result`` raises the first error).

    Attributes:
        scored: samples finished so far.
        errors: of these, samples whose verifier failed.

    """

    def __init__(
        self, score: Callable[..., float], *, workers: int = 2, on_error: str = "drop"
    ) -> None:
        if workers < 1:
            raise ValueError(f"workers must be at least 1; got {workers}")
        if on_error not in ("drop", "raise"):
            raise ValueError(f"on_error must be 'drop' or 'raise'; got {on_error!r}")
        self._score, self._on_error = score, on_error
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="reward")
        self.scored, self.errors = 0, 0

    def submit(self, *columns: Sequence[Any]) -> Pending:
        """Begin to score a batch; each column has one entry a sample. Returns at once."""
        lengths = {len(column) for column in columns}
        if len(lengths) != 1:
            raise ValueError(f"columns must have one length; got {[len(c) for c in columns]}")
        futures = [self._threads.submit(self._score, *row) for row in zip(*columns, strict=True)]
        for future in futures:
            future.add_done_callback(self._count)
        return Pending(futures, self._on_error)

    def _count(self, future: Future[float]) -> None:
        if not future.cancelled():
            self.scored += 1
            self.errors += future.exception() is not None

    def close(self) -> None:
        """Finish what has begun, drop the rest."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> "AsynchronousRewards":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
