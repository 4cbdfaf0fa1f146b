"""DeepSpeed compiles helpers on first use; they are built once, into the project's own cache."""

import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from nbkit.runs.root import ROOT


def cache_of(torch_version: str, python: tuple[int, int]) -> Path:
    """Where helpers lie that were compiled against one torch and one Python; no other loads them.

    Args:
        torch_version: as torch tells it, "2.13.0+cpu".
        python: (3, 11).

    """
    name = f"torch{torch_version.replace('+', '_')}_py{python[0]}{python[1]}"
    return ROOT / ".cache" / "torch_extensions" / name


CACHE = cache_of(torch.__version__, sys.version_info[:2])


def set_environment(device: torch.device | str) -> None:
    """Name the cache and the kind of device, unless the caller has; before DeepSpeed's import."""
    os.environ.setdefault("TORCH_EXTENSIONS_DIR", str(CACHE))
    if torch.device(device).type == "cpu":
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    os.environ.setdefault("LOCAL_RANK", "0")


def ready(device: torch.device | str) -> Any:
    """Import DeepSpeed, quietly, with its environment set; return the module."""
    set_environment(device)
    drop_dead_locks(Path(os.environ["TORCH_EXTENSIONS_DIR"]))
    # It calls functions that torch has renamed, once a message.
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    import deepspeed
    from deepspeed.utils import logger

    logger.setLevel("WARNING")
    return deepspeed


def build(device: torch.device | str = "cpu", *, nvme: bool = False) -> list[str]:
    """Compile what the book uses and name it; a second call only loads it.

    On a CPU that is the shared-memory helper of the communication back-end; on a GPU also the
    Adam that steps an offloaded optimiser.

    Args:
        device: "cpu" or "cuda".
        nvme: the helper for disks too, which takes minutes; it needs libaio.

    """
    ready(device)
    from deepspeed.accelerator import get_accelerator
    from deepspeed.ops.op_builder import CPUAdamBuilder

    wanted: list[Any] = []
    if torch.device(device).type == "cpu":
        from deepspeed.ops.op_builder.cpu import ShareMemCommBuilder

        wanted.append(ShareMemCommBuilder())
    else:
        wanted.append(CPUAdamBuilder())
    if nvme:
        need_nvme()
        # Each kind of device has a recipe of its own for it.
        wanted.append(get_accelerator().create_op_builder("AsyncIOBuilder"))
    for builder in wanted:
        builder.load(verbose=False)
    return [builder.NAME for builder in wanted]


def nvme_ready() -> bool:
    """Whether the disk helper can be built here: it needs the headers of libaio."""
    return any(
        (Path(folder) / "libaio.h").exists() for folder in ("/usr/include", "/usr/local/include")
    )


def need_nvme() -> None:
    """Refuse to offload to a disk where the helper for it cannot be built.

    Raises:
        RuntimeError: libaio is not installed.

    """
    if not nvme_ready():
        raise RuntimeError(
            "backend 'zero3-nvme' needs libaio, whose headers are not installed here; "
            "install libaio-dev (Debian) and run `nbkit build-deepspeed`, or choose 'zero3-offload'"
        )


def drop_dead_locks(cache: Path) -> list[Path]:
    """Remove the locks of compilations that were killed, for which all others wait for ever.

    Torch's lock is a file that its owner holds open. One that no process of this machine holds has
    been left behind; it is looked at twice, because an owner closes it just before it goes.

    Args:
        cache: the folder of the extensions.

    Returns:
        the locks that were removed.

    """
    if not Path("/proc/self/fd").is_dir():  # elsewhere nobody can be asked who holds a file
        return []
    dead = [lock for lock in cache.glob("*/lock") if not _held(lock)]
    if dead:
        time.sleep(0.2)
        dead = [lock for lock in dead if lock.exists() and not _held(lock)]
    for lock in dead:
        lock.unlink(missing_ok=True)
    return dead


def _held(path: Path) -> bool:
    mine = path.resolve()
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if descriptor.readlink() == mine:
                return True
        except OSError:  # it ended meanwhile, or is another user's
            continue
    return False
