"""cuDNN's attention is kept away from padded batches; on a GPU, what its gradient is there."""

import math

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attend

from nbkit.parallel import attention as kernels
from nbkit.parallel import connect
from nbkit.text.scalar_models import SharedActorCritic
from nbkit.trainers.optimisation import adamw_of
from tests.rlvr.small import config, model

PADDED = torch.tensor([[0, 1, 1], [1, 1, 1]])


@pytest.fixture
def allowed(monkeypatch):
    """What a pass allows; a mask counts as one on a GPU."""
    said: list[bool] = []
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", said.append)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    return said


def prepared(wrap=lambda one: one, times=1):
    whole = wrap(model())
    for _ in range(times):
        back_end = connect("single")
        back_end.prepare(whole, adamw_of(config(), fused=False))
    return back_end.model


def test_only_a_mask_without_holes_is_none():
    assert kernels.has_padding(PADDED) and not kernels.has_padding(torch.ones(2, 3))
    assert kernels.has_padding(torch.ones(2, 1, 3, 3))


def test_each_pass_of_a_prepared_model_chooses(allowed):
    policy = prepared()
    ids = torch.zeros(2, 3, dtype=torch.long)
    for mask, may in ((PADDED, False), (torch.ones_like(PADDED), True), (PADDED, False)):
        del allowed[:]
        policy(input_ids=ids, attention_mask=mask)
        assert allowed and set(allowed) == {may}


def test_so_does_a_body_that_a_wrapper_calls(allowed):
    prepared(SharedActorCritic).logits_and_values(torch.zeros(2, 3, dtype=torch.long), PADDED, 2)
    assert allowed and set(allowed) == {False}


def test_a_model_that_is_prepared_again_chooses_once(allowed):
    ids, lengths = torch.zeros(2, 3, dtype=torch.long), []
    for times in (1, 3):
        policy = prepared(times=times)
        del allowed[:]
        policy(input_ids=ids, attention_mask=PADDED)
        lengths.append(len(allowed))
    assert lengths[0] == lengths[1] > 0


def test_on_a_cpu_nothing_is_set(monkeypatch):
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", lambda _: pytest.fail("was set"))
    prepared()(input_ids=torch.zeros(2, 3, dtype=torch.long), attention_mask=PADDED)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: a kernel of GPUs")
@pytest.mark.parametrize("kernel", [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])
def test_the_kernels_that_are_left_have_a_finite_gradient(kernel):
    """A head that attends to one token: all other scores are far below 0."""
    for width in (128, 192, 256, 320):
        queries, keys, values = (
            torch.randn(1, 1, width, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3)
        )
        queries[..., 0], keys[..., 0] = 1.0, -120 * math.sqrt(64)
        inputs = [one.requires_grad_() for one in (queries, keys, values)]
        mask = torch.ones(width, width, dtype=torch.bool, device="cuda").tril()[None, None]
        with sdpa_kernel(kernel):
            attend(*inputs, attn_mask=mask).sum().backward()
        assert all(torch.isfinite(one.grad).all() for one in inputs), width
