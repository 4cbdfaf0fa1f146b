"""From shards to a folder of Hugging Face and back, without a process group."""

from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from nbkit.cluster.checkpoints import publish, whole_folders
from nbkit.parallel.checkpoint import SHARDS
from nbkit.parallel.manifest import read_manifest, write_manifest

CONFIG = "model"  # folder in the run with the shape of the model, as transformers writes it


def note_model(run: Path, model: Any) -> None:
    """Write the shape of a model of transformers into a run, so that it can be exported."""
    model.config.save_pretrained(run / CONFIG)


def newest(run: Path) -> Path:
    """The folder of the newest whole checkpoint of a run.

    Raises:
        FileNotFoundError: the run has none.

    """
    found = whole_folders(run / "checkpoints")
    if not found:
        raise FileNotFoundError(f"{run} has no whole checkpoint below {run / 'checkpoints'}")
    return found[-1]


def whole_weights(shards: Path) -> dict[str, Tensor]:
    """The weights of a sharded checkpoint, whole, after its manifest was checked.

    Raises:
        ManifestError: the folder is not as it was written; nothing was read.

    """
    read_manifest(shards)
    reader = FileSystemReader(shards)
    wanted = {
        key: torch.empty(noted.size, dtype=noted.properties.dtype)
        for key, noted in reader.read_metadata().state_dict_metadata.items()
        if key.startswith("model|") and isinstance(noted, TensorStorageMetadata)
    }
    dcp.load(wanted, storage_reader=reader, no_dist=True)
    return {key.partition("|")[2]: value for key, value in wanted.items()}


def export_run(run: Path, out: Path, *, dtype: str = "float32") -> Path:
    """Write the newest checkpoint of a run as a folder that ``from_pretrained`` reads.

    Args:
        run: with the checkpoint of a causal language model, and its shape (``note_model``).
        out: the folder to write.
        dtype: of the weights there.

    Returns:
        the checkpoint that was exported.

    Raises:
        FileNotFoundError: no checkpoint, or no shape.
        ManifestError: the checkpoint is not as it was written.
        ValueError: weights that the model does not have, or lacks.

    """
    from transformers import AutoConfig, AutoModelForCausalLM

    if not (run / CONFIG / "config.json").exists():
        raise FileNotFoundError(
            f"{run / CONFIG} holds no config.json; the training script calls "
            "nbkit.parallel.export.note_model(run, model) when it starts"
        )
    checkpoint = newest(run)
    weights = whole_weights(checkpoint / SHARDS)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(run / CONFIG))
    missing, unknown = model.load_state_dict(weights, strict=False)
    tied = set(model.state_dict()) - {name for name, _ in model.named_parameters()}
    missing = [name for name in missing if name not in tied]
    if missing or unknown:
        raise ValueError(f"{checkpoint} does not fit {run / CONFIG}: {[*missing, *unknown][:3]}")
    model.to(getattr(torch, dtype)).save_pretrained(out)
    return checkpoint


def import_model(folder: Path, run: Path) -> Path:
    """Write a folder of Hugging Face as step 0 of a run, so that any back-end can start from it.

    Args:
        folder: with a causal language model.
        run: to write; must have no checkpoint yet.

    Returns:
        the checkpoint's folder.

    Raises:
        FileExistsError: the run has checkpoints.

    """
    from transformers import AutoModelForCausalLM

    final = run / "checkpoints" / "step_00000000"
    if (run / "checkpoints").exists():
        raise FileExistsError(f"{run} has checkpoints already; choose a new folder")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    new = final.with_name(final.name + ".new")
    flat = {f"model|{name}": p.detach() for name, p in model.named_parameters()}
    dcp.save(flat, storage_writer=FileSystemWriter(new / SHARDS), no_dist=True)
    write_manifest(new / SHARDS, backend="imported", world_size=1, groups=[])
    note_model(run, model)
    publish(new, final)
    return final
