"""The kind of D04 and D05: micro-batches and ranks against the one batch, in value and gradient."""

import os
from pathlib import Path

import hypothesis.strategies as st
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from hypothesis import given
from tensor_values import same
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from nbkit.logprobs import token_logprobs
from nbkit.losses import cispo_loss, policy_gradient_loss, ppo_clip_loss, value_loss
from nbkit.masks import AGGREGATION_MODES, aggregate

VOCABULARY, MAX_TOKENS = 5, 8
Batch = dict[str, Tensor]


def batch_of(rows: int, seed: int, *, with_empty_rows: bool = True) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(
        0 if with_empty_rows else 1, MAX_TOKENS + 1, (rows,), generator=generator
    )
    double = {"generator": generator, "dtype": torch.float64}
    return {
        "features": torch.randn(rows, MAX_TOKENS, 3, **double),
        "tokens": torch.randint(0, VOCABULARY, (rows, MAX_TOKENS), generator=generator),
        "old_logp": -1.6 + 0.3 * torch.randn(rows, MAX_TOKENS, **double),
        "advantages": torch.randn(rows, 1, **double),
        "mask": torch.arange(MAX_TOKENS) < lengths[:, None],
    }


LOSSES = {
    "policy_gradient": lambda logp, b: policy_gradient_loss(logp, b["advantages"], mask=b["mask"]),
    "ppo": lambda logp, b: ppo_clip_loss(
        logp, b["old_logp"], b["advantages"], mask=b["mask"], dual_clip=3.0
    ),
    "gspo": lambda logp, b: ppo_clip_loss(
        logp, b["old_logp"], b["advantages"], mask=b["mask"], ratio="sequence"
    ),
    "cispo": lambda logp, b: cispo_loss(
        logp, b["old_logp"], b["advantages"], mask=b["mask"], clip_low=0.2, clip_high=0.28
    ),
    "value": lambda logp, b: value_loss(
        logp, b["old_logp"] + 1, old_values=b["old_logp"], clip=0.2, mask=b["mask"]
    ),
}


def loss_of(weight: Tensor, batch: Batch, name: str, mode: str, **counts: object) -> Tensor:
    logits = batch["features"] @ weight
    per_token = LOSSES[name](token_logprobs(logits, batch["tokens"]), batch)
    return aggregate(per_token, batch["mask"], mode, max_tokens=MAX_TOKENS, **counts)


def totals(batch: Batch, empty_rows: str) -> dict[str, object]:
    rows = batch["mask"].any(1).sum() if empty_rows == "exclude" else batch["mask"].shape[0]
    return {
        "total_tokens": batch["mask"].sum(),
        "total_sequences": rows,
        "empty_rows": empty_rows,
    }


@pytest.mark.parametrize("mode", AGGREGATION_MODES)
@pytest.mark.parametrize("name", LOSSES)
@given(
    seed=st.integers(0, 10_000),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    world_size=st.integers(1, 3),
    empty_rows=st.sampled_from(["count", "exclude"]),
)
def test_micro_batches_on_several_ranks_give_the_one_batch_gradient(
    mode: str, name: str, seed: int, sizes: list[int], world_size: int, empty_rows: str
) -> None:
    batch = batch_of(sum(sizes), seed)
    weight = torch.randn(3, VOCABULARY, dtype=torch.float64, requires_grad=True)
    whole = loss_of(weight, batch, name, mode, empty_rows=empty_rows)
    (wanted,) = torch.autograd.grad(whole, weight)

    counts = totals(batch, empty_rows)
    parts = zip(*(batch[key].split(sizes) for key in batch), strict=True)
    ranks: list[list[Batch]] = [[] for _ in range(world_size)]
    for i, part in enumerate(parts):
        ranks[i % world_size].append(dict(zip(batch, part, strict=True)))

    value, gradients = torch.zeros((), dtype=torch.float64), []
    for micro_batches in ranks:
        accumulated = torch.zeros_like(weight)
        for part in micro_batches:
            loss = loss_of(weight, part, name, mode, **counts)
            value = value + loss.detach()
            accumulated += torch.autograd.grad(loss * world_size, weight)[0]
        gradients.append(accumulated)
    averaged = torch.stack(gradients).mean(0)  # as a data-parallel framework does
    same(value, whole.detach(), atol=1e-12)
    same(averaged, wanted, atol=1e-12)


@pytest.mark.parametrize("mode", AGGREGATION_MODES)
def test_local_counts_are_wrong_on_unequal_parts(mode: str) -> None:
    """Without the global counts every mode but equal parts goes wrong: the property has teeth."""
    batch = batch_of(5, 3)
    weight = torch.randn(3, VOCABULARY, dtype=torch.float64, requires_grad=True)
    (wanted,) = torch.autograd.grad(loss_of(weight, batch, "ppo", mode), weight)
    naive = torch.zeros_like(weight)
    for rows in (slice(0, 1), slice(1, 5)):
        part = {key: x[rows] for key, x in batch.items()}
        naive += torch.autograd.grad(loss_of(weight, part, "ppo", mode) / 2, weight)[0]
    assert (naive - wanted).abs().max() > 1e-3


@pytest.mark.parametrize("mode", AGGREGATION_MODES)
def test_a_count_for_another_mode_is_refused(mode: str) -> None:
    given_count = "total_sequences" if mode == "token-mean" else "total_tokens"
    missing = "total_tokens" if mode == "token-mean" else "total_sequences"
    with pytest.raises(ValueError, match=f"{missing} is missing"):
        aggregate(torch.ones(2, 3), None, mode, max_tokens=3, **{given_count: 4})


# The same with real processes: two ranks, gloo, DistributedDataParallel.


class LinearPolicy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.weight = nn.Parameter(
            torch.randn(3, VOCABULARY, generator=generator, dtype=torch.float64)
        )

    def forward(self, batch: Batch, name: str, mode: str, **counts: object) -> Tensor:
        return loss_of(self.weight, batch, name, mode, **counts)


def _rank_main(rank: int, world_size: int, folder: str) -> None:
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=world_size)
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
    torch.save(gradients, Path(folder) / f"rank{rank}.pt")
    # A DDP that goes after its group waits in vain for gloo's thread (pytorch/pytorch#56297).
    del policy, loss
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_under_ddp_give_the_one_batch_gradient(tmp_path: Path) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    mp.spawn(_rank_main, args=(2, str(tmp_path)), nprocs=2)
    policy = LinearPolicy()
    for mode in AGGREGATION_MODES:
        (wanted,) = torch.autograd.grad(policy(batch_of(5, 3), "ppo", mode), policy.weight)
        for rank in range(2):
            same(torch.load(tmp_path / f"rank{rank}.pt")[mode], wanted, atol=1e-12)
