"""Save and resume a run of PPO so that a resumed run equals an unbroken one to the bit (CPU)."""

from pathlib import Path

from nbkit.trainers.checkpoint_file import check_configuration, read_checkpoint, write_checkpoint
from nbkit.trainers.rlhf import RLHFTrainer


def save(path: Path, trainer: RLHFTrainer) -> None:
    """Write a checkpoint between two updates; the file is replaced whole or not at all.

    Under ``parallel`` the path is a folder: the models are in its parts `policy` and `value`, which
    every rank writes. The state of the run goes with the value model, which is written last.
    """
    if trainer.parallel is not None:
        number, (policy, value) = len(trainer.history), trainer.parallel
        policy.save(path / "policy", number)
        value.save(path / "value", number, state=trainer.state_dict())
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
        policy, value = trainer.parallel
        state = value.load(path / "value")
        if state is None:  # a folder in which no checkpoint was finished yet
            return
        check_configuration(path, state["config"], now["config"])
        policy.load(path / "policy", len(state["history"]))
    if state["problems"] != now["problems"]:
        raise ValueError(
            f"{path} was written with {state['problems']} problems; now there are {now['problems']}"
        )
    if (state.get("value") is None) != (now.get("value") is None):
        raise ValueError(f"{path} was written with another arrangement of policy and value model")
    trainer.load_state_dict(state)
