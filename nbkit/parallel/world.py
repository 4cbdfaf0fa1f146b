"""Who takes part: rank, number of ranks, device. Joining and leaving the process group."""

import os
from dataclasses import dataclass, field
from datetime import timedelta

import torch
import torch.distributed as dist


@dataclass(frozen=True)
class World:
    """One process among several.

    Attributes:
        rank: number of this process, from 0.
        size: number of processes.
        device: where its model lives.

    """

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def is_main(self) -> bool:
        """Whether this process speaks for all: prints, and writes what is the same everywhere."""
        return self.rank == 0


def join(device: str | None = None, *, timeout_s: float = 600.0) -> World:
    """Join the processes that a launcher (`torchrun`, `deepspeed`, ours) has started.

    Reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT; without RANK this process is
    alone. On GPUs tensors travel by NCCL and CPU tensors by gloo.

    Args:
        device: "cpu" or "cuda"; None: "cuda" where there is one.
        timeout_s: a collective operation that waits longer than this fails.

    Raises:
        ValueError: more processes on this machine than it has GPUs.

    """
    kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
    local = int(os.environ.get("LOCAL_RANK", os.environ.get("RANK", "0")))
    if kind == "cuda":
        if local >= torch.cuda.device_count():
            raise ValueError(
                f"LOCAL_RANK is {local}, but this machine has {torch.cuda.device_count()} GPUs; "
                "start as many processes as there are GPUs"
            )
        torch.cuda.set_device(local)
    where = torch.device(kind, local) if kind == "cuda" else torch.device("cpu")
    if "RANK" not in os.environ:
        return World(device=where)
    if not dist.is_initialized():
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if kind == "cuda" else "gloo",
            timeout=timedelta(seconds=timeout_s),
            device_id=where if kind == "cuda" else None,
        )
        # A rank that left at once would close its sockets while its peers still connect.
        dist.barrier()
    return World(dist.get_rank(), dist.get_world_size(), where)


def alone(device: torch.device) -> None:
    """Make a process group of one, which the libraries want even where no launcher was used."""
    store = dist.TCPStore("127.0.0.1", 0, 1, is_master=True)  # at a port that the system chooses
    name = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(name, store=store, rank=0, world_size=1)


def leave() -> None:
    """Leave the process group, if there is one."""
    if dist.is_initialized():
        dist.destroy_process_group()


def current(device: torch.device | str = "cpu") -> World:
    """The world of this process as it stands: that of the process group, or alone."""
    if dist.is_initialized():
        return World(dist.get_rank(), dist.get_world_size(), torch.device(device))
    return World(device=torch.device(device))
