"""From shards to a folder of Hugging Face and back, without a process group."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from nbkit.generate.weights import unwrap
from nbkit.parallel.base import Parallel
from nbkit.parallel.checkpoint import SHARDS
from nbkit.parallel.manifest import read_manifest, write_manifest
from nbkit.runs.checkpoints import all_sizes, publish, whole_folders
from nbkit.runs.ranks import rank
from nbkit.text.adapters import merged_state
from nbkit.text.scalar_models import ScalarModel

CONFIG = "model"  # folder in the run with the shape of the model, as transformers writes it
KIND = "kind.json"  # beside it: a language model, or one number a position


def shape_folder(run: Path, shards: str = SHARDS) -> Path:
    """Where the shape of the model in a folder of shards lies: `model`, `model_value`."""
    return run / (CONFIG + shards.removeprefix(SHARDS))


def note_model(run: Path, model: object, shards: str = SHARDS) -> bool:
    """Write the shape of a model into a run, so that it can be exported; every rank may call this.

    Args:
        run: the folder whose `checkpoints` hold the model.
        model: of transformers, or a ``ScalarModel``; a wrapper around one is looked through.
        shards: folder of its shards in a checkpoint.

    Returns:
        whether it was noted. Other models (the small ones of ``nbkit.text.policies``) have no shape
        that transformers could read, and nothing is written for them.

    """
    plain = unwrap(getattr(model, "module", model))
    scalar = isinstance(plain, ScalarModel)
    config = getattr(plain.body if scalar else plain, "config", None)
    if config is None or not hasattr(config, "save_pretrained"):
        return False
    if rank() == 0:
        final = shape_folder(run, shards)
        new = final.with_name(final.name + ".new")
        for folder in (new, final):
            if folder.exists():
                shutil.rmtree(folder)
        config.save_pretrained(new)
        (new / KIND).write_text(json.dumps({"scalar": scalar}) + "\n")
        new.rename(final)
    return True


def note_models(run: Path, models: Mapping[str, object]) -> None:
    """Note the models of a trainer, by the folders of their shards, where that is not done yet."""
    for shards, model in models.items():
        if not (shape_folder(run, shards) / KIND).exists():
            note_model(run, model, shards)


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


def export_run(run: Path, out: Path, *, dtype: str = "float32", shards: str = SHARDS) -> Path:
    """Write the newest checkpoint of a run as a folder that ``from_pretrained`` reads.

    Args:
        run: with the checkpoint of a causal language model or a ``ScalarModel``, and its shape
            (``note_model``). Of a job with stages: the folder of the stage.
        out: the folder to write.
        dtype: of the weights there; a scalar head stays float32.
        shards: which model of the checkpoint; that of the values is `shards_value`.

    Returns:
        the checkpoint that was exported.

    Raises:
        FileNotFoundError: no checkpoint, no shape, or no such model in the checkpoint.
        ManifestError: the checkpoint is not as it was written.
        ValueError: weights that the model does not have, or lacks.

    """
    noted = shape_folder(run, shards)
    if not (noted / "config.json").exists():
        raise FileNotFoundError(
            f"{noted} holds no config.json; the training script calls "
            "nbkit.parallel.export.note_model(run, model) when it starts"
        )
    checkpoint = newest(run)
    if not (checkpoint / shards).is_dir():
        there = sorted(path.name for path in checkpoint.iterdir() if path.is_dir())
        raise FileNotFoundError(f"{checkpoint} holds no folder {shards!r}; it has {there}")
    weights = whole_weights(checkpoint / shards)
    if any("adapters." in name for name in weights):
        raise ValueError(
            f"{checkpoint / shards} holds adapters beside the frozen weights; take the run's "
            "output, into which they are merged"
        )
    model = _empty(noted)
    missing, unknown = model.load_state_dict(weights, strict=False)
    tied = set(model.state_dict()) - {name for name, _ in model.named_parameters()}
    missing = [name for name in missing if name not in tied]
    if missing or unknown:
        raise ValueError(f"{checkpoint} does not fit {noted}: {[*missing, *unknown][:3]}")
    (model.body if isinstance(model, ScalarModel) else model).to(getattr(torch, dtype))
    model.save_pretrained(out)
    return checkpoint


def write_model(parallel: Parallel, folder: Path, *, dtype: str = "float32") -> None:
    """Write a model that learns, whole, as ``from_pretrained`` reads it; every rank calls this.

    Adapters go into the weights. The settings of generation that came with a language model (its
    ends of a text, say) are written beside it.

    Args:
        parallel: prepared with a causal language model of transformers or a ``ScalarModel``.
        folder: to write, by the main rank.
        dtype: of the weights there; a scalar head stays float32.

    Raises:
        ValueError: the weights of the model are not those that its configuration names.

    """
    model = parallel.plain
    whole = parallel.whole_state(everywhere=False)
    if not parallel.world.is_main:
        return
    state = merged_state(model, whole)
    del whole
    scalar = isinstance(model, ScalarModel)
    with torch.device("meta"):
        fresh = _of_shape(model.body.config if scalar else model.config, scalar)
    low = getattr(torch, dtype)
    for name, value in state.items():
        head = scalar and name.startswith("head.")
        state[name] = value.float() if head else value.to(low)
    missing, unknown = fresh.load_state_dict(state, strict=False, assign=True)
    if not scalar and missing == ["lm_head.weight"]:
        fresh.tie_weights()
    elif missing or unknown:
        raise ValueError(f"{folder}: the model does not fit its shape: {[*missing, *unknown][:3]}")
    if not scalar:
        fresh.generation_config = model.generation_config
    fresh.save_pretrained(folder)


def _empty(noted: Path) -> Any:
    """A model of a noted shape; its weights are about to be replaced."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(noted)
    # Runs of before have no such file; they could only note language models.
    kind = noted / KIND
    return _of_shape(config, kind.exists() and json.loads(kind.read_text())["scalar"])


def _of_shape(config: Any, scalar: bool) -> Any:
    from transformers import AutoModel, AutoModelForCausalLM

    if scalar:
        return ScalarModel(AutoModel.from_config(config), nn.Linear(config.hidden_size, 1))
    return AutoModelForCausalLM.from_config(config)


def import_model(folder: Path, run: Path) -> Path:
    """Write a folder of Hugging Face as step 0 of a run, so that any back-end can start from it.

    What a kill during an earlier call left is written anew.

    Args:
        folder: with a causal language model.
        run: to write; must have no checkpoint yet.

    Returns:
        the checkpoint's folder.

    Raises:
        FileExistsError: the run has checkpoints.

    """
    from transformers import AutoModelForCausalLM

    parent = run / "checkpoints"
    final = parent / "step_00000000"
    new = final.with_name(final.name + ".new")
    if parent.exists() and any(path != new for path in parent.iterdir()):
        raise FileExistsError(f"{run} has checkpoints already; choose a new folder")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    if new.exists():
        shutil.rmtree(new)
    persistent = set(model.state_dict(keep_vars=True))
    tensors = {name: p.detach() for name, p in model.named_parameters()}
    tensors |= {name: b for name, b in model.named_buffers() if name in persistent}
    flat = {f"model|{name}": value for name, value in tensors.items()}
    dcp.save(flat, storage_writer=FileSystemWriter(new / SHARDS), no_dist=True)
    write_manifest(new / SHARDS, backend="imported", world_size=1, groups=[])
    note_model(run, model)
    publish(new, final, all_sizes(new))
    return final
