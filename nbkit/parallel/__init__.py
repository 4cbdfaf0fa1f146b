"""One trainer over one device, DDP, FSDP2 and DeepSpeed: one word of the configuration chooses.

`connect` makes the back-end; a trainer then speaks to ``Parallel`` alone. What the libraries do is
built in ``nbkit.parallel.by_hand``, which nothing else uses.
"""

from nbkit.parallel.base import Parallel
from nbkit.parallel.config import BACKENDS, ParallelConfig
from nbkit.parallel.connect import connect
from nbkit.parallel.world import World, join, leave

__all__ = ["BACKENDS", "Parallel", "ParallelConfig", "World", "connect", "join", "leave"]
