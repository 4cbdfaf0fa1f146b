"""A run folder: what a training script writes, and how it goes on after it was stopped.

The script opens a `Run`, asks it where to resume, tells it each step's metrics and state, and hands
it the result. Everything about signals, ranks, renames and stamps is here, so that the chapter's
loop stays a loop. Without a folder (on a page of the book) a run only remembers its rows.

    RUN/                     or RUN/<stage>/ for a job with stages
        config.json          what `main` was called with
        state                running, preempted, failed or finished
        events.jsonl         starts, resumptions, ends, with times and devices
        metrics.jsonl        one line a step
        samples.jsonl        what a language model wrote at some steps
        skipped/             batches on which no step could be taken
        checkpoints/         the two newest, each whole
        tensorboard/  plots/  output/
        stamp.json  result.json
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, Self

from nbkit.runs import journal, lock, provenance
from nbkit.runs.checkpoints import Checkpoint, newest_step, read_newest
from nbkit.runs.journal import read_state
from nbkit.runs.lease import Lease
from nbkit.runs.limits import step_limits
from nbkit.runs.metrics_file import Row, append_row, cut_after, drop_half_line, read_rows
from nbkit.runs.preemption import STOP, Preempted
from nbkit.runs.ranks import barrier, check_group, rank, world_size
from nbkit.runs.row_clock import RowClock
from nbkit.runs.samples import FILE as SAMPLES
from nbkit.runs.samples import Sample, append_samples, cut_samples_after
from nbkit.runs.saver import Saver
from nbkit.runs.stopping import Stopping
from nbkit.runs.trackers import Tracker, open_trackers
from nbkit.runs.unfinished import Write

__all__ = ["FOLDER_VARIABLE", "Run", "read_state"]

FOLDER_VARIABLE = "NBKIT_RUN_FOLDER"


class Run:
    """One stage of a job, or the whole job if it has none; made by `Run.start`.

    Attributes:
        folder: of this stage, or None if nothing is written.
        history: the rows so far, those from before a resumption included.
        rank: of this process.
        world_size: processes in all.
        is_main: whether this is the rank that writes.
        limits: steps in a row without use after which it ends.

    """

    def __init__(
        self, root: Path | None, stage: str, config: dict[str, Any], seeds: Sequence[int]
    ) -> None:
        self.root, self.stage = root, stage
        self.folder = None if root is None else root / stage
        self.config = json.loads(json.dumps(config, default=str))
        self.history: list[Row] = []
        self.rank, self.world_size = rank(), world_size()
        self.is_main = self.rank == 0
        self.limits = step_limits()
        self._seeds = tuple(seeds)
        self._origin = provenance.start(
            seeds=seeds, config=self.config, watched=("nbkit", "cluster_scripts")
        )
        self._stopping = Stopping(None if root is None else root / STOP)
        self._saver: Saver | None = None
        self._trackers: list[Tracker] = []
        self._lock: IO[str] | Lease | None = None
        self._clock = RowClock()

    @classmethod
    def start(
        cls,
        config: Mapping[str, Any],
        *,
        seeds: Sequence[int],
        stage: str = "",
        folder: str | Path = "",
    ) -> Self:
        """Open a run folder, new or stopped earlier.

        Args:
            config: all settings, as plain data; stored, hashed, and compared when it resumes.
            seeds: for the stamp.
            stage: of a job with stages, each in its own folder below the run's.
            folder: the run's; by default what the environment variable `NBKIT_RUN_FOLDER`
                names, and without that nothing is written.

        Raises:
            ValueError: the stage has finished, or was begun with another configuration.
            RuntimeError: another process writes to it, or ranks without a process group.

        """
        check_group()
        named = str(folder) or os.environ.get(FOLDER_VARIABLE, "")
        run = cls(Path(named) if named else None, stage, dict(config), seeds)
        if run.folder is not None:
            run._open(run.folder)
        return run

    def resume(self) -> Checkpoint | None:
        """Return the newest checkpoint, if there is one, and restore the random generators.

        Call it when model and optimiser are built, since building them draws random numbers.
        """
        if self.folder is None:
            return None
        found = read_newest(self.folder / "checkpoints", journal.compared(self.config))
        if found is not None:
            # A checkpoint that proved broken only when it was read leaves rows after this one.
            if self.is_main:
                self._cut(self.folder, found.step)
            self._remember(self.folder)
            self._event("resumed", step=found.step)
        return found

    @staticmethod
    def _cut(folder: Path, step: int) -> None:
        """Drop what was written after a step, which is taken again."""
        cut_after(folder / "metrics.jsonl", step)
        cut_samples_after(folder / SAMPLES, step)

    def _remember(self, folder: Path) -> None:
        """Read the rows that the main rank has cut; every rank calls it."""
        barrier()
        self.history = read_rows(folder / "metrics.jsonl")
        self._clock.go_on_from(self.history)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write the metrics of a step; ranks other than 0 only remember them.

        Seconds since the last row and in each phase of `timed` are added.
        """
        row = self._clock.row(step) | {name: float(value) for name, value in metrics.items()}
        self.history.append(row)
        if self.folder is not None and self.is_main:
            append_row(self.folder / "metrics.jsonl", row)
            for tracker in self._trackers:
                tracker.log(step, {key: value for key, value in row.items() if key != "step"})

    def samples(self, step: int, samples: Sequence[Sample]) -> None:
        """Write what a language model wrote at a step; ranks other than 0 do nothing."""
        if self.folder is not None and self.is_main and samples:
            append_samples(self.folder / SAMPLES, step, samples)
            for tracker in self._trackers:
                tracker.samples(step, samples)

    def stop(self, reason: str) -> None:
        """Ask this run to stop, as a signal would: its next ``checkpoint`` saves and leaves."""
        self._stopping.ask(reason)

    def asked(self) -> bool:
        """Whether the run has been asked to stop, as all ranks see it; every rank calls this."""
        return self.folder is not None and self._stopping.asked()

    def stop_if_asked(self) -> None:
        """In a long phase between two steps: raise Preempted if the run has been asked to stop.

        Every rank calls this. A single process writes its last step before (``last_step``); several
        go on from the newest checkpoint.
        """
        if self.folder is not None and self._saver is not None and self.asked():
            self._saver.settle(wait=True)
            self._stopping.write_kept()
            self._stopping.leave(newest_step(self.folder / "checkpoints"))

    def timed(self, phase: str) -> AbstractContextManager[None]:
        """Count the seconds of a block for the next row; waits for the GPU at both ends."""
        return self._clock.timed(phase)

    def checkpoint(
        self,
        step: int,
        state: Callable[[], dict[str, Any]] | None = None,
        *,
        every: int,
        write: Write | None = None,
    ) -> None:
        """Save if it is time; if the run has been asked to stop, save at once and leave.

        Every rank calls this after every step, before or after an evaluation. If the run is told
        to stop while the loop is elsewhere, a single process with `state` alone writes the last
        step that it was called for; several ranks ask by ``asked`` and ``stop_if_asked``.

        Args:
            step: how many steps have been taken.
            state: gives tensors and plain data; called on every rank, stored by rank 0.
            every: so many steps apart; 0: only when asked to stop.
            write: instead or besides, puts files into the folder that it is given, on every rank,
                and may return what a thread still writes (``unfinished``).

        Raises:
            Preempted: the run has been asked to stop; the checkpoint is saved.
            ValueError: neither `state` nor `write`.

        """
        if state is None and write is None:
            raise ValueError("checkpoint: give state= or write=, or nothing could be resumed")
        if self._saver is None:
            return
        self._saver.settle(wait=False)
        stopping = self.asked()
        if not stopping and not (every and step % every == 0):
            if state is not None and write is None:
                self._stopping.keep(step, state)
            return
        with self._stopping.saving():
            self._saver.save(step, state=state, write=write)
        if stopping:
            self._saver.settle(wait=True)
            self._stopping.leave(step)

    @property
    def output(self) -> Path:
        """The folder for what this stage makes: model, tokenizer, and so on."""
        folder = self._needed("output") / "output"
        folder.mkdir(exist_ok=True)
        return folder

    def input(self, stage: str) -> Path:
        """The output folder of an earlier stage of this run.

        Raises:
            ValueError: that stage has not finished.

        """
        return journal.output_of(self._needed("input").parent / stage, self.stage)

    def finish(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Write the stage's result with its stamp, and mark it as finished; return the result."""
        if self._saver is not None:
            self._saver.settle(wait=True)
        barrier()
        if self.folder is not None and self.is_main:
            stamp = self._origin.stamp() | {"ranks": self.world_size}
            journal.write_result(self.folder, stamp, result)
            self._set_state("finished")
        barrier()
        return dict(result)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Note how it ended; the error itself goes on its way."""
        self._stopping.end()
        for tracker in self._trackers:
            tracker.close()
        if self.folder is not None and self.is_main:
            if isinstance(error, Preempted):
                self._set_state("preempted")
                with suppress(OSError):  # whoever read this may have gone first
                    print(error, flush=True)
            elif error is not None:
                self._set_state("failed", error=f"{type(error).__name__}: {error}")
            elif read_state(self.folder) != "finished":
                self._set_state("failed", error="main ended without run.finish(result)")
        if self._lock is not None:
            self._lock.close()

    def _open(self, folder: Path) -> None:
        if self.is_main:
            journal.make_folder(folder)
            self._lock = lock.hold(folder)
            if read_state(folder) == "finished":
                raise ValueError(f"{folder} has finished already; give the run another folder")
            journal.begin(folder, self.config)
            step = newest_step(folder / "checkpoints")
            self._cut(folder, step)
            drop_half_line(folder / "events.jsonl")
            self._trackers = open_trackers(folder, self.config, step, stage=self.stage)
            self._set_state("running", ranks=self.world_size, **provenance.devices())
        self._remember(folder)
        saved, compared = partial(self._event, "checkpoint"), journal.compared(self.config)
        self._saver = saver = Saver(folder / "checkpoints", compared, saved)
        self._stopping.begin(lambda step, kept, at: saver.save(step, state=lambda: kept, random=at))

    def _needed(self, what: str) -> Path:
        if self.folder is None:
            raise ValueError(f"run.{what} needs a run folder; give main's `run_folder` a folder")
        return self.folder

    def _set_state(self, state: str, **details: Any) -> None:
        journal.write_state(self._needed("state"), state)
        self._event(state, **details)

    def _event(self, name: str, **details: Any) -> None:
        if self.folder is not None and self.is_main:
            journal.append_event(self.folder, name, commit=self._origin.commit, **details)
