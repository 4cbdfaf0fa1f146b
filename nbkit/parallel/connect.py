"""From one word to a back-end."""

from nbkit.parallel.base import Parallel
from nbkit.parallel.config import ParallelConfig
from nbkit.parallel.torch_backends import DDP, FSDP2, Single
from nbkit.parallel.world import World, join


def connect(config: ParallelConfig | str, world: World | None = None) -> Parallel:
    """Join the other processes and return the back-end that the configuration names.

    Args:
        config: settings, or the one word.
        world: of this process; None: joined here.

    Raises:
        ValueError: an unknown word; "single" among several processes.

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
    if settings.family == "deepspeed":
        from nbkit.parallel.zero import Zero  # importing DeepSpeed takes seconds

        return Zero(settings, where)
    return {"ddp": DDP, "fsdp2": FSDP2}[settings.family](settings, where)
