"""Checkpoint folders: written under a new name by all ranks, renamed when every rank is through.

``step_00000120.new`` is being written or was abandoned; ``step_00000120`` is whole. So a kill at
any moment leaves the last whole one, and the newest whole one is the one to resume from.
"""

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from nbkit.cluster.random_state import get_random_state, set_random_state
from nbkit.cluster.ranks import barrier, rank, world_size
from nbkit.trainers.checkpoint_file import read_checkpoint, write_checkpoint

NAME = re.compile(r"step_(\d{8})")
KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint.

    Attributes:
        step: after which it was written.
        folder: with what ``write`` put there.
        state: what ``state`` gave, on the CPU; empty if the run has files of its own.

    """

    step: int
    folder: Path
    state: dict[str, Any] = field(default_factory=dict)


def write_folder(
    parent: Path,
    step: int,
    config: dict[str, Any],
    *,
    state: Callable[[], dict[str, Any]] | None,
    write: Callable[[Path], None] | None,
) -> None:
    """Write the checkpoint of a step; every rank calls this.

    Args:
        parent: of the checkpoint folders.
        step: after which it is written.
        config: of the run; compared when it is read.
        state: gives tensors and plain data; called on every rank, since it may gather shards,
            and stored by rank 0.
        write: puts files into the folder it is given; called on every rank.

    """
    final = parent / f"step_{step:08d}"
    new = final.with_name(final.name + ".new")
    if rank() == 0:
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
    barrier()
    if state is not None:
        stored = {"trainer": {"config": config, "state": state()}}
        if rank() == 0:
            write_checkpoint(new / "state.pt", stored)
    if write is not None:
        write(new)
    random = {"trainer": {"config": {}}, "random": get_random_state()}
    write_checkpoint(new / f"random_{rank()}_of_{world_size()}.pt", random)
    barrier()
    if rank() == 0:
        if final.exists():
            shutil.rmtree(final)
        new.rename(final)
        _sync(parent)
        for old in _whole(parent)[:-KEPT]:
            shutil.rmtree(old)
    barrier()


def read_newest(parent: Path, config: dict[str, Any]) -> Checkpoint | None:
    """Return the newest whole checkpoint, and put the random generators where it found them.

    Generators are restored only if the number of ranks is what it was.

    Raises:
        ValueError: it was written with another configuration.

    """
    whole = _whole(parent)
    if not whole:
        return None
    folder = whole[-1]
    stored = folder / "state.pt"
    state = read_checkpoint(stored, config)["trainer"]["state"] if stored.exists() else {}
    random = folder / f"random_{rank()}_of_{world_size()}.pt"
    if random.exists():
        set_random_state(torch.load(random, weights_only=True)["random"])
    return Checkpoint(_step(folder), folder, state)


def newest_step(parent: Path) -> int:
    """The step of the newest whole checkpoint, or 0."""
    return _step(_whole(parent)[-1]) if _whole(parent) else 0


def _whole(parent: Path) -> list[Path]:
    if not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if NAME.fullmatch(path.name))


def _step(folder: Path) -> int:
    return int(folder.name.removeprefix("step_"))


def _sync(folder: Path) -> None:
    """Make the rename itself survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
