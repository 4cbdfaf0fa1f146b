"""Save and resume a run of DPO so that a resumed run equals an unbroken one to the bit (CPU)."""

from pathlib import Path

from nbkit.runs.checkpoint_file import read_checkpoint, write_checkpoint
from nbkit.trainers.dpo import DPOTrainer


def save(path: Path, trainer: DPOTrainer) -> None:
    """Write a checkpoint between two steps; the file is replaced whole or not at all."""
    write_checkpoint(path, {"trainer": trainer.state_dict()})


def resume(path: Path, trainer: DPOTrainer) -> None:
    """Put a trainer, made as it was made then, where the checkpoint was written.

    Args:
        path: written by ``save``.
        trainer: with the same configuration, pairs and shape of the model.

    Raises:
        ValueError: another configuration, another number of pairs, or another kind of file.

    """
    now = trainer.state_dict()
    state = read_checkpoint(path, now["config"])["trainer"]
    if state["pairs"] != now["pairs"]:
        raise ValueError(
            f"{path} was written with {state['pairs']} pairs; now there are {now['pairs']}"
        )
    trainer.load_state_dict(state)
