"""The Triton kernels against the chunked form, in float64. Needs a GPU; CI has none."""

import pytest
import torch

from nbkit._chunked import ChunkedEntropy, ChunkedTokenLogprobs
from nbkit.logprobs import entropy, next_token_logprobs, token_logprobs

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no CUDA device: the fused kernels run on GPUs only"
)
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}


def case(dtype, shape=(2, 5, 9001), seed=0, scale=4.0):
    generator = torch.Generator("cuda").manual_seed(seed)
    logits = scale * torch.randn(shape, generator=generator, device="cuda")
    tokens = torch.randint(shape[-1], shape[:-1], generator=generator, device="cuda")
    incoming = torch.randn(shape[:-1], generator=generator, device="cuda")
    return logits.to(dtype), tokens, incoming


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("name", ["token", "entropy"])
def test_value_and_gradient_equal_float64(dtype, temperature, name):
    logits, tokens, incoming = case(dtype)
    ours = logits.clone().requires_grad_()
    exact = logits.double().requires_grad_()
    if name == "token":
        value = token_logprobs(ours, tokens, temperature=temperature)
        right = ChunkedTokenLogprobs.apply(exact, tokens, temperature)
    else:
        value = entropy(ours, temperature=temperature)
        right = ChunkedEntropy.apply(exact, temperature)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value.double(), right, atol=2e-4, rtol=1e-5)
    (value * incoming).sum().backward()
    (right * incoming.double()).sum().backward()
    assert ours.grad.dtype == dtype
    torch.testing.assert_close(
        ours.grad.double(), exact.grad, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype]
    )


def test_strided_logits_and_shifted_sequences():
    logits, tokens, _ = case(torch.float32)
    expected = torch.log_softmax(logits.double(), -1)
    sliced = token_logprobs(logits[:, :-1], tokens[:, 1:])
    right = expected[:, :-1].gather(-1, tokens[:, 1:, None])[..., 0]
    torch.testing.assert_close(sliced.double(), right, atol=1e-4, rtol=0)
    shifted = next_token_logprobs(logits, tokens)
    torch.testing.assert_close(shifted, sliced)
    turned = logits.transpose(0, 2).contiguous().transpose(0, 2)
    torch.testing.assert_close(token_logprobs(turned, tokens), token_logprobs(logits, tokens))


def test_banned_tokens_huge_logits_and_rows_that_do_not_count():
    logits = torch.tensor([[1e4, 0.0, -torch.inf], [torch.nan, 1.0, 2.0]], device="cuda")
    logits.requires_grad_()
    tokens = torch.tensor([0, 0], device="cuda")
    mask = torch.tensor([True, False], device="cuda")
    value = token_logprobs(logits, tokens, mask=mask) + entropy(logits, mask=mask)
    assert value.tolist() == [0.0, 0.0]
    value.sum().backward()
    assert logits.grad.isfinite().all() and (logits.grad[1] == 0).all()
    banned = token_logprobs(logits[:1].detach(), torch.tensor([2], device="cuda"))
    assert banned.item() == -torch.inf


def test_the_gradient_can_be_differentiated_again():
    logits, tokens, _ = case(torch.float32, shape=(1, 2, 11))
    logits.requires_grad_()
    (first,) = torch.autograd.grad(
        token_logprobs(logits, tokens).sum() + entropy(logits).sum(), logits, create_graph=True
    )
    (second,) = torch.autograd.grad(first.square().sum(), logits)
    assert second.isfinite().all() and second.abs().sum() > 0
