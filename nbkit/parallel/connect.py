"""From one word to a back-end."""

import torch.distributed as dist

from nbkit.parallel.base import Parallel
from nbkit.parallel.config import ParallelConfig
from nbkit.parallel.torch_backends import DDP, FSDP2, Single
from nbkit.parallel.world import World, alone, join


def connect(config: ParallelConfig | str, world: World | None = None) -> Parallel:
    """Join the other processes and return the back-end that the configuration names.

    Without a launcher this process is alone, and every back-end works with one.

    Args:
        config: settings, or the one word.
        world: of this process, as ``join`` gave it; None: joined here.

    Raises:
        ValueError: an unknown word; "single" among several processes; several processes that have
            not joined each other.

    """
    settings = ParallelConfig(backend=config) if isinstance(config, str) else config
    where = world or join()
    if settings.family == "single":
        if where.size > 1:
            raise ValueError(
                f"backend is 'single', but {where.size} processes were started: each would train "
                "a model of its own; choose 'ddp', 'fsdp2' or 'zero1' to 'zero3'"
            )
        return Single(settings, where)
    if not dist.is_initialized():
        if where.size > 1:
            raise ValueError(
                f"world: {where.size} processes, but this one has not joined the others; "
                "give what `join` returns"
            )
        alone(where.device)
    if settings.family == "deepspeed":
        from nbkit.parallel.zero import Zero  # importing DeepSpeed takes seconds

        return Zero(settings, where)
    return {"ddp": DDP, "fsdp2": FSDP2}[settings.family](settings, where)
