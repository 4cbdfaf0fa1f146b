"""DeepSpeed compiles helpers on first use; they are built once, into the project's own cache."""

import os
import warnings
from pathlib import Path
from typing import Any

import torch

from nbkit.provenance import ROOT

CACHE = ROOT / ".cache" / "torch_extensions"


def set_environment(device: torch.device | str) -> None:
    """Name the cache and the kind of device, unless the caller has; before DeepSpeed's import."""
    os.environ.setdefault("TORCH_EXTENSIONS_DIR", str(CACHE))
    if torch.device(device).type == "cpu":
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    os.environ.setdefault("LOCAL_RANK", "0")


def ready(device: torch.device | str) -> Any:
    """Import DeepSpeed, quietly, with its environment set; return the module."""
    set_environment(device)
    # It calls functions that torch has renamed, once a message.
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    import deepspeed
    from deepspeed.utils import logger

    logger.setLevel("WARNING")
    return deepspeed


def build(device: torch.device | str = "cpu") -> list[str]:
    """Compile what the book uses and name it; a second call only loads it.

    On a CPU that is the shared-memory helper of the communication back-end; on a GPU also the
    Adam that steps an offloaded optimiser. The disk helper is built where libaio is installed.
    """
    ready(device)
    from deepspeed.ops.op_builder import CPUAdamBuilder
    from deepspeed.ops.op_builder.async_io import AsyncIOBuilder

    wanted: list[Any] = []
    if torch.device(device).type == "cpu":
        from deepspeed.ops.op_builder.cpu import ShareMemCommBuilder

        wanted.append(ShareMemCommBuilder())
    else:
        wanted.append(CPUAdamBuilder())
    if nvme_ready():
        wanted.append(AsyncIOBuilder())
    for builder in wanted:
        builder.load(verbose=False)
    return [builder.NAME for builder in wanted]


def nvme_ready() -> bool:
    """Whether the disk helper can be built here: it needs the headers of libaio."""
    return any(
        (Path(folder) / "libaio.h").exists() for folder in ("/usr/include", "/usr/local/include")
    )
