"""Save and resume a run of PPO so that a resumed run equals an unbroken one to the bit (CPU)."""

from dataclasses import asdict
from pathlib import Path
from typing import Literal

from nbkit._inputs import check_choice
from nbkit.runs.checkpoint_file import read_checkpoint, write_checkpoint
from nbkit.trainers.ppo import PPOTrainer


def save(
    path: Path, trainer: PPOTrainer, *, environment: Literal["exact", "restart"] = "exact"
) -> None:
    """Write a checkpoint.

    Args:
        path: the file; replaced whole or not at all.
        trainer: between two updates.
        environment: "exact" stores the state of the environments; "restart" does not, and a
            resumed run begins new episodes there (for engines that hide their state, such as
            Box2D): it is then a fair continuation, not a repetition.

    Raises:
        UnsavableEnvironment: "exact", but the environment's engine gives no exact state.

    """
    check_choice("environment", environment, ("exact", "restart"))
    state = {
        "trainer": trainer.state_dict(),
        "environment": trainer.env.get_state() if environment == "exact" else None,
    }
    write_checkpoint(path, state)


def resume(path: Path, trainer: PPOTrainer) -> None:
    """Put a trainer, made as it was made then, where the checkpoint was written.

    Args:
        path: written by ``save``.
        trainer: with the same configuration, policy and environment.

    Raises:
        ValueError: another configuration, or a file of another format.

    """
    state = read_checkpoint(path, asdict(trainer.config))
    trainer.load_state_dict(state["trainer"])
    if state["environment"] is not None:
        trainer.env.set_state(state["environment"])
        return
    # New episodes from a seed that the first ones did not have; half-played ones are dropped.
    trainer.observations = trainer.env.reset(trainer.seed + 1_000_003 * len(trainer.history))
    trainer.episodes.open_returns.zero_()
    trainer.episodes.open_lengths.zero_()
    if trainer.return_scale is not None:
        trainer.return_scale.running.zero_()
