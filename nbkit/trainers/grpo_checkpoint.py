"""Save and resume a run of GRPO so that a resumed run equals an unbroken one to the bit (CPU)."""

from pathlib import Path

from nbkit.runs.checkpoint_file import check_configuration, read_checkpoint, write_checkpoint
from nbkit.trainers.grpo import GRPOTrainer


def save(path: Path, trainer: GRPOTrainer) -> None:
    """Write a checkpoint between two updates; the file is replaced whole or not at all.

    Under ``parallel`` the path is a folder that keeps the newest checkpoints, and every rank calls.
    The shape of a model of transformers lies beside them, for ``nbkit export``.
    """
    if trainer.parallel is not None:
        from nbkit.parallel.export import SHARDS, note_models

        note_models(path, {SHARDS: trainer.model})
        trainer.parallel.save(path, len(trainer.history), state=trainer.state_dict())
        return
    write_checkpoint(path, {"trainer": trainer.state_dict()})


def resume(path: Path, trainer: GRPOTrainer) -> None:
    """Put a trainer, made as it was made then, where the checkpoint was written.

    Args:
        path: written by ``save``.
        trainer: with the same configuration, problems and shape of the model.

    Raises:
        ValueError: another configuration, another number of problems, or another kind of file.

    """
    now = trainer.state_dict()
    if trainer.parallel is None:
        state = read_checkpoint(path, now["config"])["trainer"]
    else:
        state = trainer.parallel.load(path)
        if state is None:  # a folder in which no checkpoint was finished yet
            return
        check_configuration(path, state["config"], now["config"])
    if state["problems"] != now["problems"]:
        raise ValueError(
            f"{path} was written with {state['problems']} problems; now there are {now['problems']}"
        )
    trainer.load_state_dict(state)
