"""Packed and budgeted batches equal padded ones in loss and in gradient."""

import pytest
import torch

from nbkit.packing import pack, packed_batch, token_budget_batches
from nbkit.text.packed import packed_logprobs, padded_logprobs
from tests.generate.models import FAMILIES, make, some_prompts

pytestmark = pytest.mark.chapter(31)
LENGTHS = (5, 2, 17, 9, 3, 12)


def loss_and_gradient(model, forms):
    """Sum over all tokens of weight × log-probability; weights tell the tokens apart."""
    model.zero_grad()
    total = 0.0
    for form, sequences, weights in forms:
        for scores, weight in zip(form(model, sequences, temperature=0.8), weights, strict=True):
            total = total + (scores * weight).sum()
    total.backward()
    gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
    return total.detach().clone(), gradient.clone()


@pytest.mark.parametrize("family", FAMILIES)
def test_packed_equals_padded_equals_alone(family):
    model = make(family, scale=0.1).double()
    sequences = some_prompts(LENGTHS)
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(n - 1, generator=generator, dtype=torch.float64) for n in LENGTHS]
    alone = [(padded_logprobs, [s], [w]) for s, w in zip(sequences, weights, strict=True)]
    right, gradient = loss_and_gradient(model, alone)
    plans = {
        "padded": [(padded_logprobs, list(range(6)))],
        "packed in one": [(packed_logprobs, list(range(6)))],
        "packed": [(packed_logprobs, part) for part in pack(LENGTHS, 20)],
        "budget": [(padded_logprobs, part) for part in token_budget_batches(LENGTHS, 24)],
    }
    for plan in plans.values():
        forms = [
            (form, [sequences[i] for i in part], [weights[i] for i in part]) for form, part in plan
        ]
        loss, slope = loss_and_gradient(model, forms)
        assert torch.allclose(loss, right, rtol=1e-9)
        assert torch.allclose(slope, gradient, atol=1e-9 * gradient.abs().max().item() * 100)


def test_a_neighbour_does_not_leak():
    model = make("qwen2").double()
    first, second, other = some_prompts((6, 8, 6))
    own = packed_logprobs(model, [first, second])[1]
    with_other = packed_logprobs(model, [other, second])[1]
    assert torch.allclose(own, with_other, atol=1e-12)
    assert own.shape == (7,)


def test_packed_batch():
    batch = packed_batch([[4, 5, 6], [7], [8, 9]])
    assert batch.ids.tolist() == [[4, 5, 6, 7, 8, 9]]
    assert batch.position_ids.tolist() == [[0, 1, 2, 0, 0, 1]]
    assert batch.segment_ids.tolist() == [[0, 0, 0, 1, 2, 2]]


def test_plans_hold_every_sequence_once_and_keep_the_budget():
    lengths = torch.randint(1, 100, (200,), generator=torch.Generator().manual_seed(0)).tolist()
    bins = pack(lengths, 128)
    assert sorted(i for part in bins for i in part) == list(range(200))
    assert all(sum(lengths[i] for i in part) <= 128 for part in bins)
    assert len(bins) <= 11 / 9 * -(-sum(lengths) // 128) + 1
    batches = token_budget_batches(lengths, 512)
    assert sorted(i for part in batches for i in part) == list(range(200))
    computed = [len(part) * max(lengths[i] for i in part) for part in batches]
    assert max(computed) <= 512 and sum(computed) < 1.3 * sum(lengths)
    assert token_budget_batches(lengths, 128, padded=False) == bins


def test_errors():
    with pytest.raises(ValueError, match="a sequence has 9 tokens, more than the 8 allowed"):
        pack([3, 9], 8)
    with pytest.raises(ValueError, match="every sequence needs at least one token"):
        token_budget_batches([3, 0], 8)
    with pytest.raises(ValueError, match="none may be empty"):
        packed_batch([[1], []])
