"""Engine against trainer: equal in float32, apart in bfloat16, and repaired by weights."""

import pytest
import torch

from nbkit.generate import generate
from nbkit.generate.mismatch import ratio, trainer_logprobs
from nbkit.losses import importance_weights
from tests.generate.models import make, some_prompts

pytestmark = pytest.mark.chapter(31)


def sample(model, dtype):
    prompts = some_prompts((4, 9, 2, 7))
    return generate(
        model, prompts, max_new_tokens=24, seeds=0, group_size=4, eos_ids=(3, 5, 8), dtype=dtype
    )


def test_float32_agrees_and_bfloat16_strays():
    model = make("qwen2", scale=0.15)
    spread = {}
    for dtype in (None, torch.bfloat16):
        drawn = sample(model, dtype)
        each = ratio(trainer_logprobs(model, drawn), drawn.logprobs, drawn.mask)
        assert (each[~drawn.mask] == 1).all()
        spread[dtype] = (each[drawn.mask] - 1).abs()
    assert spread[None].max() < 2e-5
    assert spread[torch.bfloat16].median() > 1e-4 and spread[torch.bfloat16].median() < 0.1


def test_rows_at_a_time_change_nothing():
    model = make("llama", scale=0.15)
    drawn = sample(model, None)
    whole, parts = (trainer_logprobs(model, drawn, rows=rows) for rows in (64, 3))
    assert torch.allclose(whole, parts, atol=1e-5)


def test_weights_repair_the_expectation_and_truncation_bounds_them():
    """E_engine[π_train/π_engine · f] = E_train[f]: exact, over the first token of a prompt."""
    model = make("qwen2", scale=0.25)
    prompt = some_prompts((6,))[0]
    rows = 3000
    drawn = generate(
        model, [prompt], max_new_tokens=1, seeds=0, group_size=rows, dtype=torch.bfloat16
    )
    logp = trainer_logprobs(model, drawn, rows=rows)
    with torch.no_grad():
        exact = model(input_ids=torch.tensor([prompt])).logits[0, -1].log_softmax(-1)
    # Over the distinct tokens that were drawn, engine probability × ratio is trainer probability.
    tokens, where = drawn.tokens[:, 0].unique(return_inverse=True)
    first = torch.zeros_like(tokens).scatter_(0, where, torch.arange(rows))
    engine = drawn.logprobs[first, 0].exp()
    each = ratio(logp, drawn.logprobs, drawn.mask)[first, 0]
    assert torch.allclose(engine * each, exact[tokens].exp(), atol=1e-6)
    assert (engine - exact[tokens].exp()).abs().max() > 1e-4
    weights = importance_weights(logp, drawn.logprobs, drawn.mask, mode="truncate", high=1.001)
    assert weights.max() <= 1.001 and (weights == 1.001).any()
