"""Save and resume a run of PPO so that a resumed run equals an unbroken one to the bit (CPU)."""

from pathlib import Path

from nbkit.runs.checkpoint_file import check_configuration, read_checkpoint, write_checkpoint
from nbkit.trainers.rlhf import RLHFTrainer


def save(path: Path, trainer: RLHFTrainer) -> None:
    """Write a checkpoint between two updates; it is replaced whole or not at all.

    Under ``parallel`` the path is a folder, and every rank calls this. Policy, value model and the
    state of the run lie in one folder for each step, which one rename makes appear.
    The shapes of models of transformers lie beside them, for ``nbkit export``.
    """
    if trainer.parallel is not None:
        from nbkit.parallel.export import SHARDS, note_models

        policy, value = trainer.parallel
        note_models(path, {SHARDS: policy.model, f"{SHARDS}_value": value.model})
        policy.save(path, len(trainer.history), state=trainer.state_dict(), beside={"value": value})
        return
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
    if trainer.parallel is None:
        state = read_checkpoint(path, now["config"])["trainer"]
    else:
        if (path / "policy" / "checkpoints").exists():
            raise ValueError(
                f"{path} holds policy and value model in two folders, as they were saved before; "
                "their steps may differ. Start the run anew, or load both models yourself"
            )
        policy, value = trainer.parallel
        state = policy.load(path, beside={"value": value})
        if state is None:  # a folder in which no checkpoint was finished yet
            return
        check_configuration(path, state["config"], now["config"])
    if state["problems"] != now["problems"]:
        raise ValueError(
            f"{path} was written with {state['problems']} problems; now there are {now['problems']}"
        )
    if (state.get("value") is None) != (now.get("value") is None):
        raise ValueError(f"{path} was written with another arrangement of policy and value model")
    trainer.load_state_dict(state)
