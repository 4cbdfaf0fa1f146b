"""What a run says of itself: its first batch, steps without a signal, batches without a step.

A step that teaches by rewards counts in "silent_steps" how many in a row had none that differ; each
step counts in "skipped" its gradients that were not finite, on which no step was taken. Both stand
in the metrics, which a checkpoint keeps, so a run that goes on counts on.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from nbkit.runs.limits import StepLimits
from nbkit.runs.samples import Sample, as_text
from nbkit.trainers.metrics import Metrics

if TYPE_CHECKING:
    from nbkit.runs.run import Run
    from nbkit.trainers.loop import Trainer

ADVICE = "start from a supervised model, take easier prompts, or give partial credit"
FIRST_SAMPLES = 3
KEPT_BATCHES = 10  # of those that were skipped; later ones are only counted
FOLDER = "skipped"


def silent_steps(history: Sequence[Metrics], silent: bool) -> float:
    """How many steps in a row were without a signal, this one included.

    Args:
        history: of the steps before.
        silent: whether this one was.

    """
    before = history[-1].get("silent_steps", 0.0) if history else 0.0
    return before + 1.0 if silent else 0.0


def bad_batches(history: Sequence[Metrics]) -> int:
    """How many steps in a row, up to the last, had a gradient that was not finite."""
    count = 0
    for metrics in reversed(history):
        if not metrics.get("skipped", 0.0):
            break
        count += 1
    return count


def reached(count: float, limit: int) -> bool:
    """Whether a count in a row has come to its limit; after a stop it has to come to it again."""
    return bool(limit and count and count % limit == 0)


def first_batch(metrics: Mapping[str, float], samples: Sequence[Sample]) -> str:
    """The signal of the first batch, what its rewards were made of, and some samples."""
    share = metrics.get("silent_groups")
    signal = "rewards that differ" if not metrics["silent_steps"] else "no two rewards that differ"
    if share is not None:
        signal = f"{1 - share:.0%} of the groups with a signal (rewards that differ)"
    names = [name for name in metrics if name == "reward" or name.startswith("reward/")]
    told = [f"{name} {metrics[name]:.3g}" for name in (*names, "accuracy") if name in metrics]
    told += [f"{metrics['truncated']:.0%} of the answers met the limit of tokens"]
    return "\n".join([f"first batch: {signal}; {', '.join(told)}", *map(as_text, samples)])


def silence(metrics: Mapping[str, float]) -> str:
    """That steps in a row had no signal, and what can be done."""
    count = int(metrics["silent_steps"])
    steps = "the last step" if count == 1 else f"{count} steps in a row"
    if metrics.get("accuracy") == 1.0:
        return f"no signal in {steps}: every answer is right; take harder prompts, or end the run"
    found = f"the rewards that are compared are equal (mean {metrics['reward']:.3g})"
    if metrics["truncated"] >= 0.5:
        found += f", and {metrics['truncated']:.0%} of the answers met the limit of tokens"
    return f"no signal in {steps}: {found}; {ADVICE}"


def refusal(metrics: Mapping[str, float], row: int, limit: int, where: Path | None) -> str:
    """That gradients were not finite, and where the batch lies."""
    lies = "" if where is None else f"; the batch is in {where}"
    return (
        f"{metrics['skipped']:.0f} gradient step(s) skipped, whose loss or gradient norm is not "
        f"finite ({row} such step(s) of the run in a row, {limit} end it){lies}"
    )


def save_refused(folder: Path, step: int, batch: Mapping[str, Any]) -> Path | None:
    """Write a batch for inspection: ``torch.load(path, weights_only=True)``.

    Args:
        folder: of the run.
        step: in which it was skipped.
        batch: tensors and plain data.

    Returns:
        the file; None where enough are kept.

    """
    kept = folder / FOLDER
    path = kept / f"step_{step:08d}.pt"
    if not path.exists() and len(list(kept.glob("step_*.pt"))) >= KEPT_BATCHES:
        return None
    kept.mkdir(exist_ok=True)
    new = path.with_suffix(".new")
    torch.save(dict(batch), new)
    new.replace(path)
    return path


class Watch:
    """Looks at the newest step of a trainer and tells what has to be told.

    Args:
        trainer: whose history is looked at.
        limits: of steps in a row.
        tell: takes a sentence.
        folder: for batches that were skipped; None: they are not kept.
        always: tell of the first batch although it has a signal.

    """

    def __init__(
        self,
        trainer: "Trainer",
        limits: StepLimits,
        tell: Callable[[str], None],
        *,
        folder: Path | None = None,
        always: bool = False,
    ) -> None:
        self.trainer, self.limits, self.tell = trainer, limits, tell
        self.folder, self.always = folder, always

    def look(self) -> None:
        """Tell of the newest step; of a silence at 1, 2, 4, 8, … steps in a row."""
        step, metrics = len(self.trainer.history), self.trainer.history[-1]
        silent = metrics.get("silent_steps")
        if silent is not None:
            if step == 1 and (silent or self.always):
                self.tell(first_batch(metrics, self.trainer.samples(FIRST_SAMPLES)))
            if silent and int(silent).bit_count() == 1:
                self.tell(silence(metrics))
        if metrics.get("skipped"):
            where = None
            if self.folder is not None and self.trainer.refused is not None:
                where = save_refused(self.folder, step, self.trainer.refused)
            row = bad_batches(self.trainer.history)
            self.tell(refusal(metrics, row, self.limits.bad_batches, where))

    @property
    def stop_reason(self) -> str | None:
        """Why the run should save and stop now; None: it should not."""
        metrics = self.trainer.history[-1]
        if reached(metrics.get("silent_steps", 0.0), self.limits.silent_steps):
            return f"limits.silent_steps is {self.limits.silent_steps}; {silence(metrics)}"
        return None

    @property
    def failed(self) -> str | None:
        """Why the run must end now, once it is saved; None: it need not."""
        row = bad_batches(self.trainer.history)
        if not reached(row, self.limits.bad_batches):
            return None
        return (
            f"{row} steps in a row whose loss or gradient's norm is not finite; no step was taken "
            "on them. Look at their batches, the logits and the learning rate"
        )


def watch_page(trainer: "Trainer") -> Watch:
    """What a page is told, by warnings, and only of faults."""
    return Watch(trainer, StepLimits(), warn)


def watch_job(trainer: "Trainer", run: "Run") -> Watch:
    """What the first rank of a job prints; a run without a folder is that of a page."""
    if run.folder is None:
        return Watch(trainer, run.limits, warn if run.is_main else _nothing)
    if not run.is_main:
        return Watch(trainer, run.limits, _nothing)
    return Watch(trainer, run.limits, _say, folder=run.folder, always=True)


def warn(words: str) -> None:
    """Warn without naming a line, so that a page keeps no path of the machine on which it ran."""
    warnings.warn_explicit(words, UserWarning, "nbkit.trainers", 1)


def _say(words: str) -> None:
    print(words, flush=True)


def _nothing(words: str) -> None:
    """What other ranks than the first do with words."""
