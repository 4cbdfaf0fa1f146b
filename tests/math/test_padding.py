"""The kind of D11: side and amount of padding change nothing, in functions and in models."""

from collections.abc import Callable

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from tensor_values import ints, same
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from nbkit.advantages import discounted_returns, group_advantages, token_gae, whiten
from nbkit.kl import kl_estimate
from nbkit.logprobs import next_token_logprobs
from nbkit.losses import importance_weights, ppo_clip_loss
from nbkit.masks import (
    AGGREGATION_MODES,
    aggregate,
    completion_mask,
    last_token_index,
    masked_mean,
    place_sequence_reward,
    position_ids,
)

Function = Callable[[list[Tensor], Tensor], Tensor]


def _chain(mode: str) -> Function:
    """Reward at the end, GAE, whitening, a clipped loss, one number: a whole step's arithmetic."""

    def run(x: list[Tensor], mask: Tensor) -> Tensor:
        rewards = place_sequence_reward(torch.tensor([1.0, -0.5, 2.0]).double(), mask)
        rewards = rewards - 0.1 * kl_estimate(x[0], x[1], "k1", mask=mask)
        advantages, _ = token_gae(rewards, x[2], mask, gamma=0.99, lam=0.9)
        advantages = whiten(advantages, mask)
        loss = ppo_clip_loss(x[0], x[1], advantages, mask=mask)
        return aggregate(loss, mask, mode, max_tokens=8)

    return run


PER_TOKEN: dict[str, Function] = {
    "token_gae advantages": lambda x, m: token_gae(x[0], x[1], m, gamma=0.95, lam=0.9)[0],
    "token_gae returns": lambda x, m: token_gae(x[0], x[1], m, gamma=0.95, lam=0.9)[1],
    "discounted_returns": lambda x, m: discounted_returns(x[0], 0.95, mask=m),
    "whiten": lambda x, m: whiten(x[0], m),
    "ppo sequence": lambda x, m: ppo_clip_loss(x[0], x[1], x[2], mask=m, ratio="sequence"),
    "weights sequence": lambda x, m: importance_weights(x[0], x[1], m, level="sequence"),
    "weights geometric": lambda x, m: importance_weights(x[0], x[1], m, level="geometric"),
}
NUMBERS: dict[str, Function] = {
    **{f"aggregate {mode}": _chain(mode) for mode in AGGREGATION_MODES},
    "masked_mean": lambda x, m: masked_mean(x[0], m, dim=1),
}


def padded(x: Tensor, left: int, right: int, value: float) -> Tensor:
    return torch.nn.functional.pad(x, (left, right), value=value)


@pytest.mark.parametrize("name", [*PER_TOKEN, *NUMBERS])
@given(seed=st.integers(0, 10_000), left=st.integers(0, 4), right=st.integers(0, 4))
def test_padding_on_either_side_changes_nothing(
    name: str, seed: int, left: int, right: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = [torch.randn(3, 5, generator=generator, dtype=torch.float64) for _ in range(3)]
    mask = torch.rand(3, 5, generator=generator) < 0.7
    function = {**PER_TOKEN, **NUMBERS}[name]
    alone = function(x, mask)
    outcome = function(
        [padded(t, left, right, float("nan")) for t in x], padded(mask, left, right, 0)
    )
    same(outcome, padded(alone, left, right, 0) if name in PER_TOKEN else alone, atol=1e-12)


@given(
    mask=st.lists(st.booleans(), min_size=1, max_size=7),
    left=st.integers(0, 3),
    right=st.integers(0, 3),
)
def test_positions_and_last_index_follow_the_real_tokens(
    mask: list[bool], left: int, right: int
) -> None:
    wide = ints([[0] * left + list(mask) + [0] * right])
    real = wide[0].bool()
    assert position_ids(wide)[0, real].tolist() == list(range(int(real.sum())))
    found = last_token_index(wide).item()
    assert found == (int(real.nonzero().max()) if real.any() else -1)


@given(
    ids=st.lists(st.integers(0, 3), min_size=1, max_size=7),
    left=st.integers(0, 3),
    right=st.integers(0, 3),
)
def test_completion_mask_with_eos_as_padding(ids: list[int], left: int, right: int) -> None:
    """0 is both EOS and PAD; the attention tells them apart, on either side."""
    wide = ints([[0] * left + ids + [0] * right])
    attention = ints([[0] * left + [1] * len(ids) + [0] * right])
    mask, truncated = completion_mask(wide, 0, attention=attention)
    length = ids.index(0) + 1 if 0 in ids else len(ids)
    assert mask[0].nonzero()[:, 0].tolist() == list(range(left, left + length))
    assert truncated.item() == (0 not in ids)


def test_group_ids_do_not_depend_on_rows_that_are_padding() -> None:
    rewards, ids = torch.randn(6).double(), ints([0, 1, 0, 1, 0, 1])
    more = torch.cat([rewards, torch.full((2,), float("nan")).double()])
    valid = ints([1] * 6 + [0] * 2)
    result = group_advantages(more, group_ids=torch.cat([ids, ints([0, 1])]), valid=valid)
    same(result[:6], group_advantages(rewards, group_ids=ids))


# Models: absolute positions and rotary ones, built from their configurations.


def gpt2() -> PreTrainedModel:
    config = GPT2Config(
        vocab_size=40, n_positions=32, n_embd=32, n_layer=2, n_head=2, eos_token_id=0
    )
    return GPT2LMHeadModel(config)


def llama() -> PreTrainedModel:
    config = LlamaConfig(
        vocab_size=40,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=32,
    )
    return LlamaForCausalLM(config)


def model_logprobs(model: PreTrainedModel, ids: Tensor, attention: Tensor) -> Tensor:
    with torch.no_grad():
        logits = model(
            input_ids=ids, attention_mask=attention, position_ids=position_ids(attention)
        ).logits
    return next_token_logprobs(logits, ids, mask=attention)


@pytest.mark.parametrize("build", [gpt2, llama])
def test_logprobs_of_a_row_alone_padded_left_and_padded_right(
    build: Callable[[], PreTrainedModel],
) -> None:
    torch.manual_seed(0)
    model = build().eval()
    rows = [torch.randint(1, 40, (n,)) for n in (3, 9, 6)]
    width = max(len(row) for row in rows)
    for side in ("left", "right"):
        blanks = [torch.zeros(width - len(row), dtype=torch.long) for row in rows]
        pairs = [(b, r) if side == "left" else (r, b) for b, r in zip(blanks, rows, strict=True)]
        ids = torch.stack([torch.cat(pair) for pair in pairs])
        real = [
            (torch.zeros_like(b), torch.ones_like(r)) for b, r in zip(blanks, rows, strict=True)
        ]
        attention = torch.stack(
            [torch.cat(pair if side == "left" else pair[::-1]) for pair in real]
        )
        together = model_logprobs(model, ids, attention)
        for i, row in enumerate(rows):
            alone = model_logprobs(model, row[None], torch.ones_like(row)[None])[0]
            start = width - len(row) if side == "left" else 0
            mine = together[i, start : start + len(row) - 1]
            torch.testing.assert_close(mine, alone, atol=1e-5, rtol=0)


def test_absolute_positions_that_count_padding_are_visibly_wrong() -> None:
    """The fault itself, so that the test above is known to see it."""
    torch.manual_seed(0)
    model = gpt2().eval()
    row = torch.randint(1, 40, (5,))
    ids, attention = padded(row[None], 3, 0, 0), ints([[0, 0, 0, 1, 1, 1, 1, 1]])
    with torch.no_grad():
        wrong = model(
            input_ids=ids, attention_mask=attention, position_ids=torch.arange(8)[None]
        ).logits
    wrong_logp = next_token_logprobs(wrong, ids, mask=attention)[0, 3:]
    alone = model_logprobs(model, row[None], torch.ones(1, 5, dtype=torch.long))[0]
    assert (wrong_logp - alone).abs().max() > 1e-3
