"""One trainer over one device, DDP, FSDP2 and DeepSpeed: one word of the configuration chooses.

`connect` makes the back-end; a trainer then speaks to ``Parallel`` alone. The modules ``ring``,
``buckets``, ``shards``, ``tensor_parallel`` and ``handover`` build by hand what the
libraries do, and are used by nothing else.
"""

from nbkit.parallel.base import Parallel
from nbkit.parallel.config import BACKENDS, ParallelConfig
from nbkit.parallel.connect import connect
from nbkit.parallel.world import World, join, leave

__all__ = ["BACKENDS", "Parallel", "ParallelConfig", "World", "connect", "join", "leave"]
