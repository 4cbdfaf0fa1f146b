"""The kind of D04 and D05: micro-batches and ranks against the one batch, in value and gradient."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from parts import LOSSES, VOCABULARY, Batch, batch_of, loss_of
from tensor_values import same

from nbkit.masks import AGGREGATION_MODES, aggregate


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
