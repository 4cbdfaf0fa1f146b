"""Decoding with a sharded model: a rank whose answers are complete must go on all the same.

Every forward pass of a sharded model is a collective operation. If one rank stops after its EOS,
the others wait for its shards for ever. Either the weights are gathered first
(``Parallel.gathered``), or all ranks take steps until the last one is through.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Decoded:
    """Attributes: `length` tokens of the answer, EOS included; `forwards` passes that were run."""

    length: int
    forwards: int


def decode_in_lockstep(
    next_token: Callable[[Tensor], int],
    prompt: Tensor,
    eos_id: int,
    limit: int,
    *,
    sync: bool = True,
) -> Decoded:
    """Decode one row a rank until its EOS, and with `sync` until the EOS of every rank.

    Args:
        next_token: from ids (1, L) to the next id; runs the sharded model.
        prompt: (1, P) ids.
        eos_id: ends an answer.
        limit: most forward passes.
        sync: ask after each step whether any rank still decodes.

    """
    ids, length, forwards, done = prompt, 0, 0, False
    while forwards < limit:
        token = next_token(ids)
        forwards += 1
        if not done:
            length += 1
            ids = torch.cat([ids, torch.tensor([[token]])], 1)
            done = token == eos_id
        if sync:
            waiting = torch.tensor(0 if done else 1)
            dist.all_reduce(waiting)
            if not waiting:
                break
        elif done:
            break
    return Decoded(length, forwards)
