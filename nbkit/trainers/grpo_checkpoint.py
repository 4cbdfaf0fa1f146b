"""Save and resume a run of GRPO so that a resumed run equals an unbroken one to the bit (CPU).

The file holds tensors and plain data only and is loaded with ``weights_only=True``: opening a
checkpoint runs no code. It is written under a new name and renamed, so a kill leaves the old one.
"""

import os
from pathlib import Path
from typing import Any

import torch

from nbkit.trainers.grpo import GRPOTrainer

_FORMAT = 1


def save(path: Path, trainer: GRPOTrainer) -> None:
    """Write a checkpoint between two updates; the file is replaced whole or not at all."""
    new = path.with_name(path.name + ".new")
    with new.open("wb") as file:
        torch.save({"format": _FORMAT, "trainer": trainer.state_dict()}, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def resume(path: Path, trainer: GRPOTrainer) -> None:
    """Put a trainer, made as it was made then, where the checkpoint was written.

    Args:
        path: written by ``save``.
        trainer: with the same configuration, problems and shape of the model.

    Raises:
        ValueError: another configuration, another number of problems, or another kind of file.

    """
    stored: dict[str, Any] = torch.load(path, weights_only=True)
    if stored.get("format") != _FORMAT:
        raise ValueError(f"{path} is no checkpoint of format {_FORMAT}: {stored.get('format')}")
    state, now = stored["trainer"], trainer.state_dict()
    different = sorted(k for k, v in now["config"].items() if state["config"].get(k) != v)
    if different:
        raise ValueError(f"{path} was written with another configuration: {', '.join(different)}")
    if state["problems"] != now["problems"]:
        raise ValueError(
            f"{path} was written with {state['problems']} problems; now there are {now['problems']}"
        )
    trainer.load_state_dict(state)
