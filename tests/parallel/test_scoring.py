"""The head and the softmax in one operation equal the two of them; the count of operations."""

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from nbkit.parallel import scoring
from nbkit.parallel.flops import flops_per_token, matrix_weights, peak_flops
from nbkit.parallel.scoring import attach_scoring, linear_logprobs, scores_tokens
from nbkit.trainers.completions import align, policy_outputs
from nbkit.trainers.grpo.batch import GroupBatch
from nbkit.trainers.grpo.update import completion_logprobs
from tests.rlvr.small import VOCABULARY, model

pytestmark = pytest.mark.chapter(33, 34)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_chunks_equal_the_whole_in_value_and_gradient(monkeypatch, temperature):
    monkeypatch.setattr(scoring, "CHUNK", 4)
    g = torch.Generator().manual_seed(0)
    hidden = torch.randn(2, 5, 6, generator=g, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(11, 6, generator=g, dtype=torch.float64, requires_grad=True)
    tokens = torch.randint(11, (2, 5), generator=g)
    factors = torch.randn(2, 5, generator=g, dtype=torch.float64)
    whole = ((hidden @ weight.t()) / temperature).log_softmax(-1).gather(-1, tokens[..., None])
    parts = linear_logprobs(hidden, weight, tokens, temperature=temperature)
    torch.testing.assert_close(parts, whole[..., 0])
    want = torch.autograd.grad((whole[..., 0] * factors).sum(), (hidden, weight))
    got = torch.autograd.grad((parts * factors).sum(), (hidden, weight))
    torch.testing.assert_close(got, want)


def test_autocast_reaches_the_backward_pass():
    g = torch.Generator().manual_seed(0)
    hidden = torch.randn(2, 5, 16, generator=g, requires_grad=True)
    weight = torch.randn(11, 16, generator=g, requires_grad=True)
    tokens = torch.randint(11, (2, 5), generator=g)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        parts = linear_logprobs(hidden, weight, tokens)
        whole = torch.nn.functional.linear(hidden, weight).float().log_softmax(-1)
    kept = parts.grad_fn.saved_tensors
    assert [kept[0].dtype, kept[1].dtype] == [torch.bfloat16] * 2  # what its products are made of
    want = torch.autograd.grad(whole.gather(-1, tokens[..., None]).sum(), (hidden, weight))
    got = torch.autograd.grad(parts.sum(), (hidden, weight))
    for a, b in zip(got, want, strict=True):
        assert a.dtype == torch.float32
        torch.testing.assert_close(a, b, atol=0.03, rtol=0.03)


def test_a_model_scores_as_its_logits_do():
    plain, taught = model(layers=2), attach_scoring(model(layers=2))
    ids = torch.randint(2, len(VOCABULARY), (3, 7), generator=torch.Generator().manual_seed(1))
    logits = plain(input_ids=ids).logits[:, :-1]
    want = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
    got = taught(input_ids=ids, score=ids)
    torch.testing.assert_close(got, want, atol=1e-5, rtol=0)
    torch.testing.assert_close(taught(input_ids=ids).logits[:, :-1], logits)
    want.sum().backward()
    got.sum().backward()
    for a, b in zip(plain.parameters(), taught.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, atol=2e-5, rtol=1e-4)


def test_the_trainers_score_a_taught_model_without_its_logits(monkeypatch):
    """Padding on both sides of the rows, and a column in which no row has a token."""
    plain, taught = model(layers=2), attach_scoring(model(layers=2))
    assert scores_tokens(taught) and not scores_tokens(plain)
    ids = torch.randint(2, len(VOCABULARY), (3, 9), generator=torch.Generator().manual_seed(1))
    attention = torch.ones_like(ids, dtype=torch.bool)
    attention[0, :3] = attention[1, 7:] = attention[:, 8:] = False
    mask, zeros = attention[:, 4:], torch.zeros(3, 5)
    rows = torch.zeros(3)
    batch = GroupBatch(ids, attention, mask, zeros, rows, rows, rows > 0, rows > 0, zeros)
    part = align(ids, attention, mask)
    want = completion_logprobs(plain, batch, 0.7), policy_outputs(plain, part, 0.7)[0]
    whole = policy_outputs(taught, part, 0.7, with_entropy=True)
    monkeypatch.setattr(taught.lm_head, "forward", None)  # it would make whole logits
    got = completion_logprobs(taught, batch, 0.7), policy_outputs(taught, part, 0.7)[0]
    for a, b in zip((*got, whole[0]), (*want, want[1]), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=0)
    assert whole[2] is not None and (got[0] != 0).sum() == mask.sum()


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match="must fit"):
        linear_logprobs(torch.zeros(2, 3, 4), torch.zeros(5, 6), torch.zeros(2, 3).long())


def test_operations_are_counted_from_the_modules():
    net = model(layers=3, width=32)
    linear = sum(m.weight.numel() for m in net.modules() if isinstance(m, torch.nn.Linear))
    assert matrix_weights(net.config) == linear  # the head among them, the embedding not
    assert flops_per_token(net.config, 10) == 6 * linear + 6 * 3 * 32 * 10


def test_heads_may_be_wider_than_the_model():
    """As in Qwen3: what attention costs follows from its heads, not from the model's width."""
    shape = Qwen3Config(
        vocab_size=50, hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, intermediate_size=48,
    )  # fmt: skip
    net = Qwen3ForCausalLM(shape)
    linear = sum(m.weight.numel() for m in net.modules() if isinstance(m, torch.nn.Linear))
    assert matrix_weights(shape) == linear
    # Of all pairs, scores and weighted sums, 2 operations each: forward 4 H Q T, backward twice.
    assert flops_per_token(shape, 10) == 6 * linear + 3 * (12 * 4 * 16 * 10) / 2


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H100 NVL", 835e12),
        ("NVIDIA H200", 989e12),
        ("NVIDIA H200 NVL", 835e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA B200", 2250e12),
        ("NVIDIA GH200 480GB", None),
        ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", None),
        ("cpu", None),
    ],
)
def test_the_peak_is_that_of_the_most_specific_name(name, peak):
    assert peak_flops(name) == peak


def test_chunks_are_of_one_size_and_cover_all_rows(monkeypatch):
    monkeypatch.setattr(scoring, "CHUNK", 4)
    for rows in (1, 4, 5, 8, 11):
        parts = list(scoring.chunks(rows))
        sizes = [min(part.stop, rows) - part.start for part in parts]
        assert sum(sizes) == rows
        assert max(sizes) <= 4
        assert len(set(sizes[:-1])) <= 1


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_anew")
def test_compiled_chunks_score_alike():
    g = torch.Generator().manual_seed(0)
    hidden = torch.randn(2, 5, 8, generator=g, requires_grad=True)
    weight = torch.randn(12, 8, generator=g, requires_grad=True)
    tokens = torch.randint(12, (2, 5), generator=g)
    found = []
    for compiled in (False, True):
        logp = linear_logprobs(hidden, weight, tokens, temperature=0.7, compiled=compiled)
        found.append((logp, *torch.autograd.grad((logp**2).sum(), (hidden, weight))))
    torch.testing.assert_close(found[1], found[0])
