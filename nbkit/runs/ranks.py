"""Which process of a job this is, and what the processes agree on.

A launcher (torchrun, deepspeed, accelerate) says it in the environment; alone, a process is rank 0
of 1. Nothing here starts a process group: the training script does, with the back-end it wants.
"""

import os
from typing import Any

import torch
import torch.distributed as dist


def rank() -> int:
    """The number of this process among all of the job."""
    return int(os.environ.get("RANK", "0"))


def world_size() -> int:
    """How many processes the job has."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def launched() -> bool:
    """Whether a launcher started this process, be it the only one."""
    return "WORLD_SIZE" in os.environ


def reads_weights() -> bool:
    """Whether this rank reads a model's weights; among several, the first gives them to all."""
    return rank() == 0 or world_size() == 1 or not dist.is_initialized()


def check_group() -> None:
    """Make sure that several processes can talk.

    Raises:
        RuntimeError: there are several, and no process group.

    """
    if world_size() > 1 and not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError(
            f"WORLD_SIZE is {world_size()} but torch.distributed is not initialised; call "
            "torch.distributed.init_process_group before Run.start"
        )


def any_rank(flag: bool) -> bool:
    """Whether the flag is set on any rank; every rank gets the same answer at the same step."""
    if world_size() == 1:
        return flag
    shared = torch.tensor(int(flag), device=_device())
    dist.all_reduce(shared, op=dist.ReduceOp.MAX)
    return bool(shared.item())


def first_rank_s(number: float) -> float:
    """The number of the first rank, on every rank."""
    if world_size() == 1:
        return number
    shared = torch.tensor(number, dtype=torch.float64, device=_device())
    dist.broadcast(shared, 0)
    return float(shared.item())


def every_rank_s(value: Any) -> list[Any]:
    """The value of each rank, by rank, on every rank; for small plain data, which is pickled."""
    if world_size() == 1:
        return [value]
    found: list[Any] = [None] * world_size()
    dist.all_gather_object(found, value)
    return found


def barrier() -> None:
    """Wait until every rank has come here."""
    any_rank(False)


def _device() -> torch.device:
    """Where a small tensor must lie for the group to reduce it."""
    if "cpu:" in str(dist.get_backend_config()):
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())
