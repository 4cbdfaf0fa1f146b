"""The loop around a trainer's step: progress, checkpoints, hooks, an early end. Written once."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from tqdm import tqdm

Metrics = dict[str, float]


class Trainer(Protocol):
    """What the loop needs of a trainer.

    Attributes:
        history: the metrics of the updates that are done.

    """

    history: list[Metrics]

    @property
    def finished(self) -> bool:
        """Whether all updates are done."""

    def step(self) -> Metrics:
        """Make one update, add its metrics to the history, and return them."""


T = TypeVar("T", bound=Trainer)


def run_updates(
    trainer: T,
    total: int,
    *,
    progress: bool,
    description: str,
    postfix: Callable[[Metrics], str],
    save: Callable[[Path, T], None],
    resume: Callable[[Path, T], None],
    checkpoint: Path | None = None,
    checkpoint_every: int = 10,
    stop: Callable[[Metrics], bool] | None = None,
    hook: Callable[[T, Metrics], None] | None = None,
) -> list[Metrics]:
    """Call ``trainer.step()`` until the trainer has finished; return its history.

    Args:
        trainer: see ``Trainer``.
        total: number of updates, for the progress bar.
        progress: show a text progress bar.
        description: its label.
        postfix: what it says of the newest metrics.
        save: writes a checkpoint.
        resume: reads one into the trainer.
        checkpoint: where to save; a run that finds something there continues from it.
        checkpoint_every: updates between two saves; the last update is always saved.
        stop: asked after each update whether to end here.
        hook: called after each update; may add to the metrics.

    """
    if checkpoint is not None and checkpoint.exists():
        resume(checkpoint, trainer)
    with tqdm(total=total, desc=description, disable=not progress, mininterval=5) as bar:
        bar.update(len(trainer.history))
        while not trainer.finished:
            metrics = trainer.step()
            if hook is not None:
                hook(trainer, metrics)
            bar.set_postfix_str(postfix(metrics), refresh=False)
            bar.update()
            ended = stop is not None and stop(metrics)
            due = len(trainer.history) % checkpoint_every == 0 or trainer.finished or ended
            if checkpoint is not None and due:
                save(checkpoint, trainer)
            if ended:
                break
    return trainer.history
