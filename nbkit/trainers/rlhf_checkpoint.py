"""Save and resume a run of PPO so that a resumed run equals an unbroken one to the bit (CPU)."""

from pathlib import Path

from nbkit.trainers.checkpoint_file import read_checkpoint, write_checkpoint
from nbkit.trainers.rlhf import RLHFTrainer


def save(path: Path, trainer: RLHFTrainer) -> None:
    """Write a checkpoint between two updates; the file is replaced whole or not at all."""
    write_checkpoint(path, {"trainer": trainer.state_dict()})


def resume(path: Path, trainer: RLHFTrainer) -> None:
    """Put a trainer, made as it was made then, where the checkpoint was written.

    Args:
        path: written by ``save``.
        trainer: with the same configuration, problems, models.

    Raises:
        ValueError: another configuration, another number of problems, a value model on one side
            only, or another kind of file.

    """
    now = trainer.state_dict()
    state = read_checkpoint(path, now["config"])["trainer"]
    if state["problems"] != now["problems"]:
        raise ValueError(
            f"{path} was written with {state['problems']} problems; now there are {now['problems']}"
        )
    if (state["value"] is None) != (now["value"] is None):
        raise ValueError(f"{path} was written with another arrangement of policy and value model")
    trainer.load_state_dict(state)
