"""Sharded checkpoints: each rank writes its part, and any number of ranks can read the whole.

The tensors go through ``torch.distributed.checkpoint``, for every back-end in one form: names of
the plain model, float32, own shape. So a run may go on under another back-end or on another number
of ranks. ``nbkit.runs.checkpoints`` makes the folder appear whole or not at all.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter

from nbkit.parallel.config import ParallelConfig
from nbkit.parallel.manifest import parse_manifest, read_manifest, write_manifest
from nbkit.parallel.world import World
from nbkit.runs.checkpoints import read_newest, write_folder

SHARDS = "shards"


class Sharded(Protocol):
    """What is written and read: as much of a ``nbkit.parallel.Parallel`` as this needs."""

    config: ParallelConfig
    world: World
    optimiser: Any

    @property
    def plain(self) -> nn.Module:
        """The model as it was handed over, by whose names tensors are stored."""
        ...

    def state(self) -> dict[str, dict[str, Any]]:
        """Tensors to write, by their names."""
        ...

    def empty_state(self, kinds: dict[str, list[str]]) -> dict[str, dict[str, Any]]:
        """Tensors to read into."""
        ...

    def put(self, state: dict[str, dict[str, Any]]) -> None:
        """Take over what was read."""
        ...

    def barrier(self) -> None:
        """Wait for all ranks."""
        ...


def save(
    parallel: Sharded,
    run: Path,
    number: int,
    *,
    state: dict[str, Any] | None = None,
    beside: Mapping[str, Sharded] | None = None,
) -> Path:
    """Write the checkpoint of a step; every rank calls this.

    Args:
        parallel: what is written: weights, the optimiser's state and its settings.
        run: folder of the run.
        number: of the step.
        state: what else the next step depends on (sampler, schedule, KL controller), the same on
            all ranks: tensors and plain data. The global random generators of each rank are added.
        beside: name to another model that learns in this run (a value model). It goes into the
            same folder, so that one rename makes all of the step appear, or nothing of it.

    Returns:
        the folder of the checkpoint.

    """
    parent = run / "checkpoints"
    models = _models(parallel, beside)

    def write(folder: Path) -> None:
        for name, model in models.items():
            write_shards(model, folder / name)

    write_folder(parent, number, {}, state=lambda: state or {}, write=write)
    return parent / f"step_{number:08d}"


def load(
    parallel: Sharded,
    run: Path,
    number: int | None = None,
    *,
    beside: Mapping[str, Sharded] | None = None,
) -> dict[str, Any] | None:
    """Put a prepared model where the newest checkpoint was written; every rank calls this.

    A checkpoint that is not as it was written is passed over with a warning, and the one before it
    is read.

    Args:
        parallel: prepared with a model and an optimiser of the same kind; back-end and number of
            ranks may be others.
        run: folder of the run.
        number: a step, of which the models alone are read; None: the newest checkpoint, and the
            global random generators are put where it found them.
        beside: the other models, by the names under which they were saved.

    Returns:
        what was given to ``save`` as `state`; None if the run has no checkpoint, or for a `number`.

    Raises:
        BrokenCheckpointError: no checkpoint is as it was written (a ManifestError if a hash says
            so); nothing was read.
        ValueError: another model, or another optimiser; nothing was read.
        FileNotFoundError: no checkpoint of this step.

    """
    models = _models(parallel, beside)
    if number is not None:
        folder = run / "checkpoints" / f"step_{number:08d}"
        if not folder.is_dir():
            raise FileNotFoundError(f"{run} has no checkpoint of step {number}")
        for name, model in models.items():
            read_shards(model, folder / name)
        return None

    def check(folder: Path) -> None:
        for name in models:
            read_manifest(folder / name)

    found = read_newest(run / "checkpoints", {}, check=check)
    if found is None:
        return None
    for name, model in models.items():
        read_shards(model, found.folder / name, checked=True)
    return found.state


def _models(parallel: Sharded, beside: Mapping[str, Sharded] | None) -> dict[str, Sharded]:
    """Name of the folder to model; the first is the one that an export takes."""
    return {SHARDS: parallel, **{f"{SHARDS}_{name}": one for name, one in (beside or {}).items()}}


def write_shards(parallel: Sharded, folder: Path) -> None:
    """Write weights and optimiser state, each rank its part, and the manifest."""
    flat = flatten(parallel.state())
    dcp.save(flat, storage_writer=FileSystemWriter(folder), no_dist=not dist.is_initialized())
    parallel.barrier()
    write_manifest(folder, **facts_of(parallel))


def facts_of(parallel: Sharded) -> dict[str, Any]:
    """What the manifest of a model says beside the hashes of its files."""
    return {
        "backend": parallel.config.backend,
        "world_size": parallel.world.size,
        "optimiser": type(parallel.optimiser).__name__,
        "groups": groups_of(parallel.optimiser),
    }


def read_shards(parallel: Sharded, folder: Path, *, checked: bool = False) -> None:
    """Read weights and optimiser state into a prepared model, after its manifest was checked.

    Args:
        parallel: the prepared model.
        folder: that ``write_shards`` wrote.
        checked: ``read_manifest`` has just been called; the hashes are not computed again.

    Raises:
        ManifestError: the folder is not as it was written.
        ValueError: another model, or another optimiser; nothing was read.

    """
    manifest = parse_manifest(folder) if checked else read_manifest(folder)
    reader = FileSystemReader(folder)
    stored = reader.read_metadata().state_dict_metadata
    kinds: dict[str, list[str]] = {}
    for key in stored:
        place, _, rest = key.partition("|")
        if place == "optimiser":
            kind, _, name = rest.partition("|")
            kinds.setdefault(kind, []).append(name)
    _check_names(parallel, folder, stored)
    _check_optimiser(parallel, folder, manifest, kinds)
    state = parallel.empty_state({kind: sorted(names) for kind, names in sorted(kinds.items())})
    flat = flatten(state)
    _check_shapes(folder, flat, stored)
    dcp.load(flat, storage_reader=reader, no_dist=not dist.is_initialized())
    parallel.put(state)
    groups = parallel.optimiser.param_groups
    # An imported model comes without an optimiser: the settings stay as they are.
    for group, noted in zip(groups, manifest["groups"] or [{}] * len(groups), strict=True):
        group.update({k: tuple(v) if isinstance(v, list) else v for k, v in noted.items()})


def _check_names(parallel: Sharded, folder: Path, stored: Mapping[str, Any]) -> None:
    """Refuse a checkpoint that holds other tensors than the model has."""
    plain = parallel.plain
    persistent = set(plain.state_dict(keep_vars=True))
    buffers = {name for name, _ in plain.named_buffers()}
    wanted = {name for name, _ in plain.named_parameters()} | (buffers & persistent)
    there = {key.partition("|")[2] for key in stored if key.startswith("model|")}
    if wanted - there:
        raise ValueError(f"{folder} is of another model: it lacks {min(wanted - there)}")
    # A buffer may have been saved once and computed since.
    if there - wanted - buffers:
        name = min(there - wanted - buffers)
        raise ValueError(f"{folder} is of another model: it holds {name}, which this one lacks")


def _check_shapes(folder: Path, flat: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    """Refuse a checkpoint whose tensors have other shapes."""
    for key, value in flat.items():
        if key not in stored:
            raise ValueError(f"{folder} is of another run: it lacks {key}")
        there, here = tuple(getattr(stored[key], "size", ())), tuple(value.shape)
        if there != here:
            raise ValueError(
                f"{folder} is of another model: there the shape of {key} is {there}, here {here}"
            )


def _check_optimiser(
    parallel: Sharded, folder: Path, manifest: Mapping[str, Any], kinds: dict[str, list[str]]
) -> None:
    """Refuse the state of another kind of optimiser, or of parameters that do not learn here."""
    groups, here = manifest["groups"], type(parallel.optimiser).__name__
    if not groups:  # an imported model
        return
    there = manifest.get("optimiser", here)
    if there != here:
        raise ValueError(f"{folder} is of another optimiser: {there} wrote it, here is {here}")
    if len(groups) != len(parallel.optimiser.param_groups):
        raise ValueError(
            f"{folder} is of another optimiser: there are {len(groups)} groups of parameters in "
            f"it, here {len(parallel.optimiser.param_groups)}"
        )
    learns = {name for name, p in parallel.plain.named_parameters() if p.requires_grad}
    other = {name for names in kinds.values() for name in names} - learns
    if other:
        raise ValueError(f"{folder} is of another run: {min(other)} learned there, not here")


def flatten(state: dict[str, dict[str, Any]]) -> dict[str, Tensor]:
    """{"model": {name: x}, "optimiser": {kind: {name: x}}} as {"model|name": x, ...}."""
    flat = {f"model|{name}": value for name, value in state["model"].items()}
    for kind, values in state["optimiser"].items():
        flat |= {f"optimiser|{kind}|{name}": value for name, value in values.items()}
    return flat


def groups_of(optimiser: Any) -> list[dict[str, Any]]:
    """The settings of an optimiser (learning rate, betas) as plain data."""
    return [
        {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in group.items()
            if key != "params" and isinstance(value, int | float | bool | tuple | type(None))
        }
        for group in optimiser.param_groups
    ]
