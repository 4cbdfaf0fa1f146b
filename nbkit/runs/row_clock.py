"""The seconds in the rows of a run: since it began, since the row before, and in each phase."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from nbkit.runs.metrics_file import Row


class RowClock:
    """Counts from when it is made, on top of what the rows of an earlier start have."""

    def __init__(self) -> None:
        self._started = self._row_time = time.perf_counter()
        self._earlier_seconds = 0.0
        self._phases: dict[str, float] = {}

    def go_on_from(self, rows: list[Row]) -> None:
        """Count on from the last of the rows that the run has already."""
        self._earlier_seconds = rows[-1]["seconds"] if rows else 0.0

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Count the seconds of a block for the next row; waits for the GPU at both ends."""
        _wait_for_gpu()
        started = time.perf_counter()
        yield
        _wait_for_gpu()
        seconds = time.perf_counter() - started
        self._phases[phase] = self._phases.get(phase, 0.0) + seconds

    def row(self, step: int) -> Row:
        """The beginning of a row: step and seconds; the phases begin anew."""
        now = time.perf_counter()
        row: Row = {"step": step, "seconds": self._earlier_seconds + now - self._started}
        row["seconds/step"] = now - self._row_time
        row |= {f"seconds/{phase}": seconds for phase, seconds in self._phases.items()}
        self._row_time, self._phases = now, {}
        return row


def _wait_for_gpu() -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
