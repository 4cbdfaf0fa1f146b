"""What all trainers are: a state, a step, and a loop around it. The loop is written once.

A trainer is everything that its next step depends on. Weights and optimisers belong to its
learners, each a ``nbkit.parallel.Parallel``; the rest is in ``state_dict``. ``run`` is the loop of
a page, ``fit`` that of a job.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from tqdm import tqdm

from nbkit.parallel.base import Parallel
from nbkit.runs.checkpoint_file import check_configuration
from nbkit.runs.samples import Sample
from nbkit.trainers import checkpoint as checkpoints
from nbkit.trainers.data_order import PromptStream
from nbkit.trainers.metrics import Metrics, peak_memory
from nbkit.trainers.watch import watch_job, watch_page

if TYPE_CHECKING:
    from nbkit.runs.run import Run

SAMPLES = 4  # of a step


class Trainer(ABC):
    """A run: everything that the next step depends on, so that it can be written down.

    Attributes:
        config: settings, a dataclass.
        history: the metrics of each step.
        learners: name to each model that learns, on its back-end; an export takes the first.
        refused: tensors and plain data of the last step's first batch that was skipped, because
            its gradient was not finite; None: there was none.

    """

    description: ClassVar[str]  # label of the progress bar
    save_every: ClassVar[int] = 10  # steps between two checkpoints, unless ``run`` is told

    config: Any
    history: list[Metrics]
    learners: Mapping[str, Parallel]
    refused: dict[str, Any] | None = None
    _run: "Run | None" = None  # of the job, while it trains there

    @abstractmethod
    def step(self) -> Metrics:
        """Make one step, add its metrics to the history, and return them."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return what the next step depends on beside the learners: tensors and plain data."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what ``state_dict`` returned."""

    @property
    @abstractmethod
    def planned(self) -> int:
        """How far the run goes: steps, or what else ``done`` counts."""

    @property
    def done(self) -> int:
        """How far it has come."""
        return len(self.history)

    @property
    def finished(self) -> bool:
        """Whether it has come so far."""
        return self.done >= self.planned

    def postfix(self, metrics: Metrics) -> str:
        """What the progress bar says of the newest metrics."""
        return ""

    def samples(self, count: int) -> list[Sample]:
        """Up to so many completions of the last step; [] of a model that wrote none."""
        return []

    def note(self, metrics: Metrics) -> Metrics:
        """Add the metrics of a step to the history, on a GPU with the memory that it took."""
        for parallel in self.learners.values():
            metrics |= peak_memory(parallel.world.device)
        self.history.append(metrics)
        return metrics

    def poll(self) -> None:
        """Called by all ranks in what takes long within a step; leaves if the job is to stop."""
        if self._run is not None:
            self._run.stop_if_asked()

    # ---- checkpoints

    def check_state(self, state: Mapping[str, Any], where: Path) -> None:
        """Raise ValueError, naming what differs, if a state was written by another run."""
        check_configuration(where, state["config"], self.plain_config())

    def plain_config(self) -> dict[str, Any]:
        """The settings as plain data, as a checkpoint holds them."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self.config).items()}

    def beside(self, **options: Any) -> dict[str, Any]:
        """What a checkpoint's file holds beside the trainer (the state of an environment)."""
        if options:
            raise TypeError(f"save: {type(self).__name__} knows no {', '.join(sorted(options))}")
        return {}

    def load_beside(self, found: Mapping[str, Any]) -> None:  # noqa: B027 (most have nothing)
        """Put back what ``beside`` returned; called after ``load_state_dict``."""

    def write_own(self, folder: Path) -> None:  # noqa: B027 (most have nothing)
        """Write what each rank keeps for itself into a checkpoint of a job; every rank calls it."""

    def read_own(self, folder: Path) -> None:  # noqa: B027 (most have nothing)
        """Read what ``write_own`` wrote; called after ``load_state_dict``."""

    # ---- loops

    def run(
        self,
        *,
        progress: bool = True,
        description: str | None = None,
        stop: Callable[[Metrics], bool] | None = None,
        checkpoint: Path | None = None,
        checkpoint_every: int | None = None,
        hook: Callable[[Self, Metrics], None] | None = None,
    ) -> list[Metrics]:
        """Make steps until done; return the history.

        Steps without a signal, and batches that were skipped, are warned of (see ``watch``).

        Args:
            progress: show a text progress bar.
            description: its label; None: that of the algorithm.
            stop: asked after each step whether to end here, for a budget of tokens say.
            checkpoint: where to save; a run that finds something there continues from it. See
                ``nbkit.trainers.checkpoint`` for what is a file and what a folder.
            checkpoint_every: steps between two saves; the last step is always saved.
            hook: called after each step; may add to the metrics.

        Raises:
            RuntimeError: three steps in a row had a gradient that is not finite.

        """
        if checkpoint is not None and checkpoint.exists():
            checkpoints.resume(checkpoint, self)
        every = checkpoint_every or self.save_every
        label = description or self.description
        watch = watch_page(self)
        with tqdm(total=self.planned, desc=label, disable=not progress, mininterval=5) as bar:
            bar.update(self.done)
            while not self.finished:
                metrics = self.step()
                if hook is not None:
                    hook(self, metrics)
                bar.set_postfix_str(self.postfix(metrics), refresh=False)
                bar.update(self.done - bar.n)
                watch.look()
                failed = watch.failed
                ended = stop is not None and stop(metrics)
                due = len(self.history) % every == 0 or self.finished or ended or failed
                if checkpoint is not None and due:
                    checkpoints.save(checkpoint, self)
                if failed:
                    raise RuntimeError(failed)
                if ended:
                    break
        return self.history

    def fit(
        self,
        run: "Run",
        *,
        save_every: int,
        phase: str = "step",
        measure: Callable[[], Metrics] | None = None,
        measure_every: int = 0,
        samples: Callable[[], list[Sample]] | None = None,
        samples_every: int = 10,
    ) -> list[Metrics]:
        """Make steps in a job's run until done: go on where it was stopped, log, save.

        Every rank calls this. The run says when it is time to stop, by the exception that its
        ``checkpoint`` raises. The first rank tells what ``watch`` has to tell; limits of the run
        end it: without a signal it saves and stops resumably, with too many batches that were
        skipped it saves and fails. Without a folder only the latter stops it.

        Args:
            run: of the job.
            save_every: steps between two checkpoints; 0: only when the job is told to stop.
            phase: the rows call the seconds of a step "seconds/PHASE".
            measure: what else to log, such as the accuracy on held-out data.
            measure_every: steps between two calls of it; the last step has one too; 0: only there.
            samples: completions to write down, called on every rank; None: those of the step.
            samples_every: steps between two; the first and the last have some too; 0: none at all.

        Returns:
            the metrics of each step, those from before a resumption included.

        Raises:
            RuntimeError: so many steps in a row as ``limits.bad_batches`` says had a gradient that
                is not finite; a checkpoint is saved.

        """
        found = checkpoints.resume_run(run, self)
        self._run, watch = run, watch_job(self, run)

        def save(every: int) -> None:
            ranks = partial(checkpoints.write_ranks, trainer=self)
            run.checkpoint(len(self.history), self.state_dict, every=every, write=ranks)

        unwritten = found is not None and len(self.history) > len(run.history)  # not measured yet
        while unwritten or not self.finished:
            with run.timed(phase):
                metrics = self.history[-1] if unwritten else self.step()
            unwritten, step = False, len(self.history)
            turn = self.finished or (measure_every and step % measure_every == 0)
            if measure is not None and turn:
                if run.asked():  # it may take longer than the time that is left
                    save(every=1)
                with run.timed("measure"):
                    metrics |= measure()
            run.log(step, {k: v for k, v in metrics.items() if k != "step"})
            due = samples_every and (step == 1 or self.finished or step % samples_every == 0)
            if due and run.folder is not None:
                with run.timed("samples"):
                    run.samples(step, self.samples(SAMPLES) if samples is None else samples())
            watch.look()
            if watch.stop_reason is not None:
                run.stop(watch.stop_reason)
            failed = watch.failed
            save(every=save_every if failed is None else 1)
            if failed is not None:
                raise RuntimeError(failed)
        return self.history


class StreamTrainer(Trainer):
    """A trainer on data in a shuffled order, from one source of randomness.

    Args:
        config: settings.
        count: items of data.
        generator: of the order, and of all else that is drawn.
        learners: prepared.

    """

    data: ClassVar[str] = "problems"  # what the items are called

    def __init__(
        self, config: Any, count: int, generator: torch.Generator, learners: Mapping[str, Parallel]
    ) -> None:
        self.config, self.generator, self.learners = config, generator, dict(learners)
        self.stream = PromptStream(count, generator, self.data)
        self.history: list[Metrics] = []

    @property
    def parallel(self) -> Parallel:
        """The back-end of the first learner."""
        return next(iter(self.learners.values()))

    @property
    def optimiser(self) -> Any:
        """Of the first learner."""
        return self.parallel.optimiser

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the data and the learners, as tensors and plain data."""
        return {
            "config": self.plain_config(),
            "generator": self.generator.get_state(),
            "stream": self.stream.state_dict(),
            self.data: self.stream.count,
            "history": self.history,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what ``state_dict`` returned."""
        self.generator.set_state(state["generator"])
        self.stream.load_state_dict(state["stream"])
        self.history = list(state["history"])

    def check_state(self, state: Mapping[str, Any], where: Path) -> None:
        """As in ``Trainer``; the number of items counts too."""
        super().check_state(state, where)
        if state[self.data] != self.stream.count:
            raise ValueError(
                f"{where} was written with {state[self.data]} {self.data}; now there are "
                f"{self.stream.count}"
            )
