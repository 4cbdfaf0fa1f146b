"""Checkpoints written while the next steps are taken: a copy on the host, and a thread a rank.

The copy takes the time of a transfer to the host; the disk is no longer waited for. It takes room
there: weights and the optimiser's state, each rank its part, 12 bytes a parameter for Adam.
"""

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemWriter

from nbkit.parallel.checkpoint import Sharded, facts_of, flatten
from nbkit.parallel.manifest import own_digests, write_manifest

VARIABLE = "NBKIT_ASYNCHRONOUS_CHECKPOINTS"


def wanted() -> bool:
    """Whether the launcher asks for such checkpoints, by the environment."""
    return os.environ.get(VARIABLE) == "1"


class LaterShards:
    """The shards of one model, copied when this is made, and written by a thread.

    Every rank makes one. The thread's messages go through a process group of its own, so that they
    do not meet those of the training.

    Args:
        parallel: whose weights and optimiser's state.
        folder: of its shards.
        number: of the model among those that learn.

    """

    def __init__(self, parallel: Sharded, folder: Path, number: int) -> None:
        self._folder, self._facts = folder, facts_of(parallel)
        self._rank = parallel.world.rank
        alone = not dist.is_initialized()
        written: Any = dcp.async_save(
            flatten(parallel.state()),
            storage_writer=FileSystemWriter(folder),
            process_group=None if alone else _group(number),
            no_dist=alone,
        )
        threads = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._hashed: Future[dict[str, str]] = threads.submit(self._hash, written)
        threads.shutdown(wait=False)  # it ends when that is done

    def _hash(self, written: "Future[None]") -> dict[str, str]:
        written.result()
        return own_digests(self._folder, self._rank)

    def done(self) -> bool:
        """Whether this rank's shards are on the disk and hashed, or have failed."""
        return self._hashed.done()

    def finish(self) -> None:
        """Wait for them, and write the manifest; every rank calls this."""
        known = self._hashed.result()
        if dist.is_initialized():
            dist.barrier()
        write_manifest(self._folder, known, **self._facts)


class All:
    """Several of them, as one."""

    def __init__(self, parts: Sequence[LaterShards]) -> None:
        self._parts = parts

    def done(self) -> bool:
        """Whether all of this rank's are written."""
        return all(part.done() for part in self._parts)

    def finish(self) -> None:
        """Wait for all; every rank calls this."""
        for part in self._parts:
            part.finish()


_GROUPS: dict[int, Any] = {}


def _group(number: int) -> Any:
    """A process group of gloo for the thread of one model; made together, once."""
    if number not in _GROUPS:
        _GROUPS[number] = dist.new_group(backend="gloo")
    return _GROUPS[number]
