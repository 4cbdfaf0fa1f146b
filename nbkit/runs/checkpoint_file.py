"""The file of a checkpoint: replaced whole or not at all, and opened without running code.

It holds tensors and plain data only and is loaded with ``weights_only=True``. It is written under a
new name and renamed, so a kill leaves the old one.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

_FORMAT = 1


def write_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Write ``state`` and the number of the format.

    Args:
        path: the file; replaced whole or not at all.
        state: tensors and plain data.

    """
    new = path.with_name(path.name + ".new")
    with new.open("wb") as file:
        torch.save({"format": _FORMAT, **state}, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def read_checkpoint(path: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``write_checkpoint`` wrote of a trainer with this configuration.

    Args:
        path: the file.
        config: of the trainer that resumes; compared with ``["trainer"]["config"]``.

    Raises:
        ValueError: a file of another format, or another configuration.

    """
    state: dict[str, Any] = torch.load(path, weights_only=True)
    if state.get("format") != _FORMAT:
        raise ValueError(f"{path} is no checkpoint of format {_FORMAT}: {state.get('format')}")
    check_configuration(path, state["trainer"]["config"], config)
    return state


def check_configuration(path: Path, stored: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Raise ValueError, naming the fields, if a checkpoint was written with other settings."""
    different = sorted(key for key, value in config.items() if stored.get(key) != value)
    if different:
        raise ValueError(f"{path} was written with another configuration: {', '.join(different)}")
