"""The same with real processes: two ranks, gloo, DistributedDataParallel."""

import pytest
import torch
import torch.distributed as dist
from parts import VOCABULARY, Batch, batch_of, loss_of
from tensor_values import same
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from nbkit.masks import AGGREGATION_MODES
from nbkit.parallel.world import join
from tests.parallel import jobs


class LinearPolicy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.weight = nn.Parameter(
            torch.randn(3, VOCABULARY, generator=generator, dtype=torch.float64)
        )

    def forward(self, batch: Batch, name: str, mode: str, **counts: object) -> Tensor:
        return loss_of(self.weight, batch, name, mode, **counts)


def gradients_of_a_rank() -> dict[str, Tensor]:
    world = join("cpu")
    rank, world_size = world.rank, world.size
    batch = batch_of(5, 3)
    rows = [slice(0, 1), slice(1, 5)][rank]
    local = {key: x[rows] for key, x in batch.items()}
    # The global counts travel, as they must in training: nobody knows them beforehand.
    counts = torch.tensor([local["mask"].sum(), local["mask"].shape[0]])
    dist.all_reduce(counts)
    gradients = {}
    for mode in AGGREGATION_MODES:
        policy = DistributedDataParallel(LinearPolicy())
        loss = policy(local, "ppo", mode, total_tokens=counts[0], total_sequences=counts[1])
        (loss * world_size).backward()
        gradients[mode] = policy.module.weight.grad
    return gradients


@pytest.mark.slow
def test_two_processes_under_ddp_give_the_one_batch_gradient() -> None:
    found = jobs.ranks(2, gradients_of_a_rank)
    policy = LinearPolicy()
    for mode in AGGREGATION_MODES:
        (wanted,) = torch.autograd.grad(policy(batch_of(5, 3), "ppo", mode), policy.weight)
        for rank in range(2):
            same(found[rank][mode], wanted, atol=1e-12)
