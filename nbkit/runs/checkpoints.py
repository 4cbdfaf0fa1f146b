"""Checkpoint folders: written under a new name by all ranks, renamed when every rank is through.

``step_00000120.new`` is being written or was abandoned; ``step_00000120`` is whole. When a step is
saved again, its old folder is ``step_00000120.old`` until the new one has its place, and counts as
whole if there is no other. So a kill at any moment leaves the last whole one, and the newest whole
one is the one to resume from. What turns out broken all the same is called
``step_00000120.broken``.
"""

import json
import os
import pickle
import re
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from nbkit.runs.checkpoint_file import check_configuration, read_checkpoint, write_checkpoint
from nbkit.runs.provenance import write_json
from nbkit.runs.random_state import get_random_state, set_random_state
from nbkit.runs.ranks import any_rank, barrier, every_rank_s, rank, world_size
from nbkit.runs.unfinished import Unfinished, Write

NAME = re.compile(r"step_(\d{8})(\.old)?")
FILES = "files.json"  # names and sizes of all files of a checkpoint
KEPT = 2


class BrokenCheckpointError(ValueError):
    """A checkpoint is not as it was written."""


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
    write: Write | None,
    random: dict[str, Any] | None = None,
) -> Unfinished | None:
    """Write the checkpoint of a step; every rank calls this.

    Args:
        parent: of the checkpoint folders.
        step: after which it is written.
        config: of the run; compared when it is read.
        state: gives tensors and plain data; called on every rank, since it may gather shards,
            and stored by rank 0.
        write: puts files into the folder it is given; called on every rank. It may return what is
            still being written, on all ranks or on none.
        random: of the random generators after that step; by default as they are now.

    Returns:
        what is still to be settled; None: the checkpoint is whole.

    """
    final = parent / f"step_{step:08d}"
    new = final.with_name(final.name + ".new")
    if rank() == 0:
        if new.exists():
            shutil.rmtree(new)
        new.mkdir(parents=True)
    barrier()
    if state is not None:
        stored = {"trainer": {"config": config, "state": state()}}
        if rank() == 0:
            write_checkpoint(new / "state.pt", stored)
    later = None if write is None else write(new)
    noted = {"trainer": {"config": {}}, "random": random or get_random_state()}
    write_checkpoint(new / f"random_{rank()}_of_{world_size()}.pt", noted)
    if later is not None:
        return Unfinished(step, later, lambda: _publish_together(new, final))
    _publish_together(new, final)
    return None


def _publish_together(new: Path, final: Path) -> None:
    """Give a folder its name when every rank has written; drop the oldest. All ranks call it."""
    barrier()
    sizes = all_sizes(new)  # waits for all
    if rank() == 0:
        publish(new, final, sizes)
        earlier = [path for path in whole_folders(final.parent) if _step(path) <= _step(final)]
        for path in earlier[:-KEPT]:
            shutil.rmtree(path)
    barrier()


def all_sizes(folder: Path) -> dict[str, int]:
    """The sizes of the files that all ranks have written into a folder; every rank calls this.

    On a network file system a rank may see late what another has written: not at all, or too short.
    Whoever wrote it sees the whole, which is the largest size that any rank sees.
    """
    sizes: dict[str, int] = {}
    for seen in every_rank_s(_sizes(folder)):
        for name, size in seen.items():
            sizes[name] = max(size, sizes.get(name, 0))
    return dict(sorted(sizes.items()))


def publish(new: Path, final: Path, sizes: dict[str, int]) -> None:
    """Give a folder that is complete its name; one process calls this.

    Everything in it is on the disk before it is renamed. A folder that has the name already is
    renamed first and removed last, so at no moment is there neither. The `sizes` of its files, in
    bytes, are those of ``all_sizes``.
    """
    write_json(new / FILES, {"format": 1, "files": sizes})
    for path in (*new.rglob("*"), new):
        _sync(path)
    old = final.with_name(final.name + ".old")
    if final.exists():
        if old.exists():  # left by a kill; `final` took its place then
            shutil.rmtree(old)
        final.rename(old)
    new.rename(final)
    _sync(final.parent)
    if old.exists():
        shutil.rmtree(old)


def read_newest(
    parent: Path,
    config: dict[str, Any],
    *,
    check: Callable[[Path], object] | None = None,
) -> Checkpoint | None:
    """Return the newest whole checkpoint, and put the random generators where it found them.

    A folder that is broken (a file is missing, cut short or cannot be read) is passed over with a
    warning, and gets a name that ends in `.broken`. Every rank calls this, and all take the same.
    Generators are restored only if the number of ranks is what it was.

    Args:
        parent: of the checkpoint folders.
        config: of the run.
        check: called on every rank with a folder; raises a BrokenCheckpointError if the files
            that ``write`` put there are not as they were written.

    Raises:
        ValueError: it was written with another configuration.
        BrokenCheckpointError: there are checkpoints, and none of them is whole.

    """
    broken: list[tuple[Path, Exception]] = []
    # The first rank's: another may still see the folders as they were.
    for folder in every_rank_s(_folders(parent))[0][::-1]:
        stored, random, error = _open(folder)
        if not any_rank(error is not None) and check is not None:
            error = _failure(check, folder)
        if any_rank(error is not None):
            why = error or BrokenCheckpointError(f"another rank cannot read {folder}")
            broken.append((folder, why))
            continue
        if stored is not None:
            check_configuration(folder / "state.pt", stored["config"], config)
        _put_aside(broken, folder)
        if random is not None:
            set_random_state(random)
        return Checkpoint(_step(folder), folder, {} if stored is None else stored["state"])
    if broken:
        newest = broken[0][1]
        newest.add_note("No checkpoint is whole: " + "; ".join(str(why) for _, why in broken))
        raise newest
    return None


def newest_step(parent: Path) -> int:
    """The step of the newest checkpoint with all its files, or 0."""
    for folder in _folders(parent)[::-1]:
        if _failure(check_files, folder) is None:
            return _step(folder)
    return 0


def whole_folders(parent: Path) -> list[Path]:
    """The folders of all steps that were finished, by step, one a step."""
    return list({_step(path): path for path in _folders(parent)}.values())


def _folders(parent: Path) -> list[Path]:
    """Finished folders by step; of one step the old folder comes before the one in its place."""
    if not parent.is_dir():
        return []
    found = (path for path in parent.iterdir() if NAME.fullmatch(path.name))
    return sorted(found, key=lambda path: (_step(path), path.suffix != ".old"))


def _open(folder: Path) -> tuple[dict[str, Any] | None, dict[str, Any] | None, Exception | None]:
    """The trainer's part, the random generators of this rank, and what was wrong."""
    own, random = folder / "state.pt", folder / f"random_{rank()}_of_{world_size()}.pt"
    try:
        check_files(folder)
        stored = read_checkpoint(own, {})["trainer"] if own.exists() else None
        noted = torch.load(random, weights_only=True)["random"] if random.exists() else None
    except BrokenCheckpointError as error:
        return None, None, error
    except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
        # The first words say enough; torch adds advice on files of strangers.
        words = str(error).partition(". ")[0]
        return None, None, BrokenCheckpointError(f"{folder} cannot be read: {words}")
    return stored, noted, None


def _failure(check: Callable[[Path], object], folder: Path) -> BrokenCheckpointError | None:
    try:
        check(folder)
    except BrokenCheckpointError as error:
        return error
    return None


def check_files(folder: Path) -> None:
    """Compare the files of a checkpoint with the list that was written last.

    Raises:
        BrokenCheckpointError: the list is missing, or a file is, or has another size.

    """
    if not (folder / FILES).exists():
        raise BrokenCheckpointError(f"{folder} has no {FILES}, which is written last")
    try:
        noted = json.loads((folder / FILES).read_text())["files"]
    except ValueError as error:
        raise BrokenCheckpointError(f"{folder / FILES} is no JSON: {error}") from error
    found = _sizes(folder)
    for name, size in noted.items():
        if name not in found:
            raise BrokenCheckpointError(f"{folder / name} is missing")
        if found[name] != size:
            raise BrokenCheckpointError(
                f"{folder / name} has {found[name]} bytes; {size} were written"
            )


def _put_aside(broken: list[tuple[Path, Exception]], taken: Path) -> None:
    """Warn of the broken folders and rename them, so that nothing counts them any more."""
    for folder, why in broken:
        aside = folder.with_name(f"{folder.name.removesuffix('.old')}.broken")
        warnings.warn(
            f"the checkpoint {folder} is broken ({why}); the run goes on from {taken.name}, and "
            f"the folder is now called {aside.name}",
            stacklevel=3,
        )
        if rank() == 0:
            if aside.exists():
                shutil.rmtree(aside)
            folder.rename(aside)
    barrier()


def _step(folder: Path) -> int:
    found = NAME.fullmatch(folder.name)
    if found is None:
        raise ValueError(f"{folder} is not the name of a checkpoint, such as step_00000120")
    return int(found[1])


def _sizes(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.suffix != ".new" and path.is_file() and path.relative_to(folder) != Path(FILES)
    }


def _sync(path: Path) -> None:
    """Make a file, or the names in a folder, survive a loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
