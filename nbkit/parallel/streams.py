"""Seeds and data order across ranks: sampling differs by rank, data agrees, both resume."""

import hashlib
from typing import Any

import torch


def rank_seed(seed: int, rank: int, stream: str = "sampling") -> int:
    """A 63-bit seed for one stream of one rank.

    `seed + rank` is a trap: rank 1 of the run with seed 0 then repeats rank 0 of the run with
    seed 1. A hash keeps all streams of all runs apart.

    Args:
        seed: of the run.
        rank: of the process; the same number on all ranks for what must agree, such as the data.
        stream: what it is for.

    """
    text = f"{seed}/{rank}/{stream}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1


def sampling_generator(seed: int, rank: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator that differs between ranks: equal ones would sample equal completions."""
    return torch.Generator(device).manual_seed(rank_seed(seed, rank, "sampling"))


def data_generator(seed: int) -> torch.Generator:
    """A generator that is the same on every rank, for the order of the data."""
    return torch.Generator().manual_seed(rank_seed(seed, 0, "data"))


class GlobalBatches:
    """Item numbers in batches without end: an order by epoch that all ranks agree on.

    The state says where the *run* is, not where a rank is, so it resumes on any number of ranks.

    Args:
        count: number of items.
        batch_size: items a step, over all ranks.
        seed: of the orders.

    Raises:
        ValueError: fewer items than a batch.

    """

    def __init__(self, count: int, batch_size: int, seed: int) -> None:
        if not 1 <= batch_size <= count:
            raise ValueError(
                f"batch_size must lie between 1 and the {count} items; got {batch_size}"
            )
        self.count, self.batch_size, self.seed = count, batch_size, seed
        self.taken = 0

    def order(self, epoch: int) -> list[int]:
        """The permutation of an epoch; a function of seed and epoch alone."""
        generator = torch.Generator().manual_seed(rank_seed(self.seed, 0, f"epoch {epoch}"))
        return torch.randperm(self.count, generator=generator).tolist()

    def next(self) -> list[int]:
        """The items of the next global batch; it may reach into the next epoch."""
        found: list[int] = []
        while len(found) < self.batch_size:
            epoch, place = divmod(self.taken, self.count)
            part = self.order(epoch)[place : place + self.batch_size - len(found)]
            self.taken += len(part)
            found += part
        return found

    def state_dict(self) -> dict[str, Any]:
        """Where the run is."""
        return {"taken": self.taken, "count": self.count, "seed": self.seed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there.

        Raises:
            ValueError: written with another number of items or another seed.

        """
        for name in ("count", "seed"):
            if state[name] != getattr(self, name):
                raise ValueError(
                    f"{name} was {state[name]} when the order of the data was saved; now it is "
                    f"{getattr(self, name)}"
                )
        self.taken = int(state["taken"])


def mine(items: list[int], rank: int, size: int) -> list[int]:
    """This rank's items of a global batch: every size-th, so that no item is left over."""
    return items[rank::size]
