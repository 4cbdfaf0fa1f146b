"""Log-probabilities and entropy: right in every chunking, never a float32 copy of the logits."""

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from tensor_values import same
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from nbkit import _chunked
from nbkit.kl import kl_exact
from nbkit.logprobs import entropy, next_token_logprobs, token_logprobs


def plain_logprobs(logits: Tensor, tokens: Tensor, temperature: float = 1.0) -> Tensor:
    return (logits / temperature).log_softmax(-1).gather(-1, tokens[..., None])[..., 0]


def plain_entropy(logits: Tensor, temperature: float = 1.0) -> Tensor:
    logp = (logits / temperature).log_softmax(-1)
    return -(logp.exp() * logp).sum(-1)


@pytest.fixture(params=[1, 7, 10**9], ids="chunk of {} numbers".format)
def chunk_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setitem(_chunked.CHUNK_ELEMENTS, "cpu", request.param)
    return request.param


STRIDES = {
    "contiguous": lambda x: x,
    "first rows": lambda x: x[:, :-1],
    "every other": lambda x: x[:, ::2],
    "turned": lambda x: x.transpose(0, 1),
    "wider vocabulary cut": lambda x: x[..., :-2],
    "expanded": lambda x: x[:1].expand(4, -1, -1),
    "two dimensions": lambda x: x[0],
    "one dimension": lambda x: x[0, 0],
    "four dimensions": lambda x: x[:, :4].reshape(3, 2, 2, -1)[:, 1:],
    "no rows": lambda x: x[:0],
}


@pytest.mark.parametrize("view", STRIDES)
@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.usefixtures("chunk_size")
def test_values_and_gradients_in_every_chunking(view: str, temperature: float) -> None:
    logits = torch.randn(3, 5, 9, dtype=torch.float64, requires_grad=True)
    seen = STRIDES[view](logits)
    tokens = torch.randint(0, seen.shape[-1], seen.shape[:-1])
    logp = token_logprobs(seen, tokens, temperature=temperature)
    pairs = (
        (logp, plain_logprobs(seen, tokens, temperature)),
        (entropy(seen, temperature=temperature), plain_entropy(seen, temperature)),
    )
    for ours, plain in pairs:
        same(ours, plain.detach(), atol=1e-12)
        weights = torch.randn_like(plain)
        (mine,) = torch.autograd.grad((ours * weights).sum(), logits, retain_graph=True)
        (theirs,) = torch.autograd.grad((plain * weights).sum(), logits, retain_graph=True)
        same(mine, theirs, atol=1e-12)


@given(seed=st.integers(0, 10_000), shift=st.floats(-50, 50), size=st.integers(1, 8))
def test_a_constant_added_to_the_logits_changes_nothing(seed: int, shift: float, size: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits, ref = torch.randn(2, 2, 4, size, generator=generator, dtype=torch.float64)
    tokens = torch.randint(0, size, (2, 4), generator=generator)
    moved = logits + shift * torch.rand(2, 4, 1, generator=generator, dtype=torch.float64)
    same(token_logprobs(moved, tokens), token_logprobs(logits, tokens), atol=1e-12)
    same(next_token_logprobs(moved, tokens), next_token_logprobs(logits, tokens), atol=1e-12)
    same(entropy(moved), entropy(logits), atol=1e-12)
    same(kl_exact(moved, ref), kl_exact(logits, ref), atol=1e-12)
    same(kl_exact(ref, moved), kl_exact(ref, logits), atol=1e-12)


@given(seed=st.integers(0, 10_000))
def test_permuting_rows_and_tokens_together(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(5, 3, 6, generator=generator, dtype=torch.float64)
    tokens = torch.randint(0, 6, (5, 3), generator=generator)
    order = torch.randperm(5, generator=generator)
    for function in (token_logprobs, next_token_logprobs):
        assert torch.equal(function(logits[order], tokens[order]), function(logits, tokens)[order])


@given(seed=st.integers(0, 10_000), temperature=st.sampled_from([0.3, 1.0, 2.0]))
def test_probabilities_of_the_vocabulary_sum_to_one(seed: int, temperature: float) -> None:
    logits = torch.randn(6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 5
    logp = token_logprobs(logits.expand(6, 6), torch.arange(6), temperature=temperature)
    same(logp.exp().sum(), 1.0, atol=1e-12)
    same(entropy(logits, temperature=temperature), -(logp.exp() * logp).sum(), atol=1e-12)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_second_derivatives(temperature: float) -> None:
    logits = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    tokens = torch.randint(0, 4, (2, 3))
    for function in (
        lambda x: token_logprobs(x, tokens, temperature=temperature),
        lambda x: entropy(x, temperature=temperature),
    ):
        assert torch.autograd.gradcheck(function, logits)
        assert torch.autograd.gradgradcheck(function, logits)


def test_rows_that_do_not_count_may_be_nan() -> None:
    """Forward fills what an attention row without keys leaves behind; backward stays clean."""
    logits = torch.randn(2, 3, 5)
    logits[0, 1] = float("nan")
    tokens, mask = torch.randint(0, 5, (2, 3)), torch.ones(2, 3, dtype=torch.bool)
    mask[0, 1] = False
    tokens[0, 1] = -100
    for function in (lambda x, **o: token_logprobs(x, tokens, **o), entropy):
        leaf = logits.clone().requires_grad_()
        result = function(leaf, mask=mask)
        result.sum().backward()
        assert result[0, 1] == 0
        assert leaf.grad.isfinite().all()
        assert (leaf.grad[0, 1] == 0).all()


def test_a_nan_row_dropped_by_a_later_mask_leaves_the_gradient_clean() -> None:
    logits = torch.randn(1, 3, 5)
    logits[0, 1] = float("nan")
    leaf = logits.requires_grad_()
    logp = token_logprobs(leaf, torch.zeros(1, 3, dtype=torch.long))
    torch.where(torch.tensor([[True, False, True]]), logp, 0.0).sum().backward()
    assert leaf.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_dtypes(dtype: torch.dtype) -> None:
    logits = (torch.randn(2, 4, 50) * 3).to(dtype).requires_grad_()
    tokens = torch.randint(0, 50, (2, 4))
    exact = logits.detach().double().requires_grad_()
    for ours, plain in (
        (token_logprobs(logits, tokens), plain_logprobs(exact, tokens)),
        (entropy(logits), plain_entropy(exact)),
    ):
        assert ours.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        same(ours, plain.detach(), atol=5e-6)
        (mine,) = torch.autograd.grad(ours.sum(), logits)
        (theirs,) = torch.autograd.grad(plain.sum(), exact)
        assert mine.dtype == dtype
        # One rounding, to the dtype of the logits.
        torch.testing.assert_close(
            mine.double(), theirs, atol=1e-6, rtol=2 * torch.finfo(dtype).eps
        )


class LargestTensor(TorchDispatchMode):
    """Records the most numbers that any float32 or float64 result held, views apart."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, Tensor) and tensor.dtype in (torch.float32, torch.float64):
                self.wide = max(self.wide, tensor.numel())
        return out


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("name", ["token_logprobs", "next_token_logprobs", "entropy"])
def test_no_float32_tensor_larger_than_a_chunk(
    name: str, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, vocabulary, chunk = (4, 16), 500, 2000
    monkeypatch.setitem(_chunked.CHUNK_ELEMENTS, "cpu", chunk)
    logits = torch.randn(*rows, vocabulary).bfloat16().requires_grad_()
    tokens = torch.randint(0, vocabulary, rows)
    functions = {
        "token_logprobs": lambda x: token_logprobs(x, tokens, temperature=temperature),
        "next_token_logprobs": lambda x: next_token_logprobs(x, tokens, temperature=temperature),
        "entropy": lambda x: entropy(x, temperature=temperature),
    }
    with LargestTensor() as seen:
        functions[name](logits).sum().backward()
    assert 0 < seen.wide <= chunk
    assert logits.grad.dtype == torch.bfloat16
    with LargestTensor() as naive:
        plain_logprobs(logits.float(), tokens).sum().backward()
    assert naive.wide == logits.numel()


def test_logits_without_gradient_and_changed_logits() -> None:
    logits, tokens = torch.randn(2, 3, 4), torch.zeros(2, 3, dtype=torch.long)
    assert not token_logprobs(logits, tokens).requires_grad
    leaf = logits.clone().requires_grad_()
    with torch.no_grad():
        assert not token_logprobs(leaf, tokens).requires_grad
    scaled = leaf * 1.0
    logp = token_logprobs(scaled, tokens)
    scaled.mul_(2)  # autograd must notice that what it saved is gone
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        logp.sum().backward()
