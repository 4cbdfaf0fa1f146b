"""Frequencies against the exact distribution; noise; filters; log-probabilities."""

import math

import pytest
import torch
from scipy import stats

from nbkit.generate import generate
from nbkit.generate.mismatch import trainer_logprobs
from nbkit.generate.sampling import (
    draw,
    filter_threshold,
    filtered_logprobs,
    gumbel_noise,
    row_seeds,
)
from tests.generate.models import FAMILIES, make, some_prompts

pytestmark = pytest.mark.chapter(31)
CASES = (
    {},
    {"temperature": 0.6},
    {"temperature": 1.7},
    {"top_k": 5},
    {"top_p": 0.7},
    {"temperature": 1.3, "top_k": 9, "top_p": 0.8},
)


def fits(counts, probabilities):
    """Chi-square p-value, cells of fewer than five expected put together; forbidden ones empty."""
    expected = probabilities * counts.sum()
    assert counts[probabilities == 0].sum() == 0, "a token outside the filter was drawn"
    many = expected >= 5
    seen = [*counts[many].tolist(), counts[~many].sum().item()]
    right = [*expected[many].tolist(), expected[~many].sum().item()]
    if right[-1] < 1e-9:
        seen, right = seen[:-1], right[:-1]
    total = sum(seen)
    right = [x * total / sum(right) for x in right]
    return stats.chisquare(seen, right).pvalue


@pytest.mark.parametrize("keywords", CASES)
def test_frequencies_of_the_engine(models, keywords):
    model = models["qwen2"]
    (prompt,) = some_prompts((6,))
    out = generate(model, [prompt], max_new_tokens=1, group_size=8000, seeds=11, **keywords)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([prompt])).logits[0, -1]
    exact = filtered_logprobs(logits, **keywords).exp().double()
    counts = torch.bincount(out.tokens[:, 0], minlength=exact.numel()).double()
    assert fits(counts, exact) > 1e-3
    assert torch.allclose(out.logprobs[:, 0].double().exp(), exact[out.tokens[:, 0]], atol=1e-5)


def test_frequencies_at_a_later_position_and_with_one_seed_a_row():
    logits = torch.tensor([0.0, 1.0, 2.0, -1.0, 0.5]).expand(20_000, 5)
    exact = logits[0].softmax(-1).double()
    seeds = torch.arange(20_000)
    for position in (0, 1, 777):
        noise = gumbel_noise(seeds, torch.full_like(seeds, position), 5)
        tokens, _ = draw(logits, noise)
        assert fits(torch.bincount(tokens, minlength=5).double(), exact) > 1e-3
    one_row = gumbel_noise(torch.tensor([3]), torch.arange(20_000)[None], 5)[0]
    tokens, _ = draw(logits, one_row)
    assert fits(torch.bincount(tokens, minlength=5).double(), exact) > 1e-3


def test_neighbouring_positions_seeds_and_tokens_are_independent():
    noise = gumbel_noise(torch.arange(300), torch.arange(100).expand(300, -1), 20)
    uniform = torch.exp(-torch.exp(-noise.double()))
    assert stats.kstest(uniform.flatten().numpy(), "uniform").pvalue > 1e-3
    for dim in range(3):
        length = noise.shape[dim] - 1
        first, second = uniform.narrow(dim, 0, length), uniform.narrow(dim, 1, length)
        pairs = torch.stack([first.flatten(), second.flatten()])
        limit = 4 / math.sqrt(pairs.shape[1])
        assert abs(torch.corrcoef(pairs)[0, 1]) < limit


def test_noise_depends_on_seed_position_and_token_alone():
    seeds = torch.tensor([5, -7, 2**62, 5])
    positions = torch.tensor([0, 3, 9, 1])
    whole = gumbel_noise(seeds, positions, 50)
    for row in range(4):
        alone = gumbel_noise(seeds[row : row + 1], positions[row : row + 1], 30)
        assert torch.equal(alone[0], whole[row, :30])
    assert not torch.equal(whole[0], whole[3])
    assert whole.isfinite().all()
    high = gumbel_noise(torch.tensor([1, 1 + 2**40]), torch.tensor([0, 0]), 50)
    assert not torch.equal(high[0], high[1]), "the high half of a seed is ignored"


def test_large_vocabulary_reaches_its_tail():
    noise = gumbel_noise(torch.tensor([1]), torch.tensor([0]), 200_000)
    assert noise.isfinite().all()
    assert noise.max() > math.log(200_000) - 3
    assert noise.unique().numel() > 195_000


def plain_filter(logits, temperature, top_k, top_p):
    """transformers' own processors."""
    from transformers import TopKLogitsWarper, TopPLogitsWarper

    scores = logits / temperature
    if top_k:
        scores = TopKLogitsWarper(top_k)(None, scores)
    if top_p:
        scores = TopPLogitsWarper(top_p)(None, scores)
    return scores.log_softmax(-1)


@pytest.mark.parametrize("top_k", [None, 1, 4, 50, 400])
@pytest.mark.parametrize("top_p", [None, 0.05, 0.5, 0.95, 1.0])
def test_filters_equal_those_of_transformers(top_k, top_p):
    logits = 3 * torch.randn(20, 300, generator=torch.Generator().manual_seed(0))
    ours = filtered_logprobs(logits, temperature=0.8, top_k=top_k, top_p=top_p)
    right = plain_filter(logits, 0.8, top_k and min(top_k, 300), top_p)
    assert torch.equal(ours.isinf(), right.isinf())
    assert torch.allclose(ours.exp(), right.exp(), atol=1e-6)


def test_ties_at_the_border_stay():
    logits = torch.tensor([[2.0, 1.0, 1.0, 0.0]])
    kept = filtered_logprobs(logits, top_k=2).exp()
    assert (kept > 0).tolist() == [[True, True, True, False]]
    assert filter_threshold(logits, top_k=2).item() == 1.0
    assert filter_threshold(logits, top_k=9) is None and filter_threshold(logits) is None


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("keywords", [{}, {"temperature": 0.7, "top_k": 20, "top_p": 0.9}])
def test_logprobs_equal_a_fresh_forward_pass(family, keywords):
    model = make(family, scale=0.15)
    out = generate(
        model, some_prompts((3, 9, 1, 14)), max_new_tokens=30, seeds=2, eos_ids=(4, 9), **keywords
    )
    fresh = trainer_logprobs(model, out, **keywords)
    assert torch.allclose(out.logprobs, fresh, atol=1e-5, rtol=0)
    assert (out.logprobs[out.mask] < 0).any() and (out.logprobs[~out.mask] == 0).all()


def test_row_seeds():
    drawn = row_seeds(5, 100, "cpu")
    assert drawn.unique().numel() == 100
    assert torch.equal(drawn[:10], row_seeds(5, 10, "cpu")), "row 3 keeps its seed in any batch"
    assert torch.equal(row_seeds([2**64 - 1, 3], 2, "cpu"), torch.tensor([-1, 3]))
    first = row_seeds(torch.Generator().manual_seed(1), 8, "cpu")
    again = row_seeds(torch.Generator().manual_seed(1), 8, "cpu")
    assert torch.equal(first, again) and first.unique().numel() == 8
    with pytest.raises(ValueError, match=r"seeds: 2 given for 3 rows"):
        row_seeds([1, 2], 3, "cpu")
