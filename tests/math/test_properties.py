"""Properties that every function of the mathematics shares, on generated input."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from subjects import OF_LOGITS, PER_GROUP, PER_ROW, PER_TOKEN, REDUCED, Subject
from torch import Tensor

SEEDS = st.integers(0, 2**31)
GARBAGE = (float("nan"), float("inf"), -float("inf"), 1e30, -1e30)
WITH_MASK = PER_TOKEN + REDUCED + PER_GROUP
EVERYTHING = WITH_MASK + PER_ROW + OF_LOGITS
SHAPES = (
    dict.fromkeys(map(str, WITH_MASK), (3, 6))
    | dict.fromkeys(map(str, PER_ROW), (5,))
    | dict.fromkeys(map(str, OF_LOGITS), (3, 6, 5))
)


def drawn(
    subject: Subject, seed: int, *, scale: float = 1.0, dtype: torch.dtype = torch.float64
) -> tuple[list[Tensor], list[Tensor]]:
    """Random tensors for a subject, and its mask in a list where it has one."""
    generator = torch.Generator().manual_seed(seed)
    shape = SHAPES[subject.name]
    tensors = [
        torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(subject.inputs)
    ]
    mask = torch.rand(shape, generator=generator) < 0.7
    masks = [mask] if subject.name in {s.name for s in WITH_MASK} else []
    return [(x * scale).to(dtype) for x in tensors], masks


def with_gradients(subject: Subject, tensors: list[Tensor], masks: list[Tensor]) -> list[Tensor]:
    """The value, then the gradient of a fixed random functional of it in each input."""
    leaves = [x.clone().requires_grad_(i in subject.grads) for i, x in enumerate(tensors)]
    value = subject.call(*leaves, *masks)
    if not subject.grads:
        return [value]
    weights = torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).reshape(value.shape)
    wanted = [leaves[i] for i in subject.grads]
    return [value.detach(), *torch.autograd.grad((value * weights).sum(), wanted)]


@pytest.mark.parametrize("subject", WITH_MASK, ids=str)
@given(seed=SEEDS, garbage=st.sampled_from(GARBAGE), everywhere=st.booleans())
def test_what_stands_under_a_zero_reaches_neither_value_nor_gradient(
    subject: Subject, seed: int, garbage: float, everywhere: bool
) -> None:
    tensors, (mask,) = drawn(subject, seed)
    if everywhere:
        mask = torch.zeros_like(mask)
    clean = with_gradients(subject, tensors, [mask])
    dirty = with_gradients(subject, [x.masked_fill(~mask, garbage) for x in tensors], [mask])
    for x, y in zip(clean, dirty, strict=True):
        assert torch.equal(x, y)
        assert not y.isnan().any()
        if y.shape == mask.shape:
            assert (y[~mask] == 0).all()


@pytest.mark.parametrize("subject", WITH_MASK, ids=str)
def test_a_mask_of_zeros_and_ones_is_a_mask_of_bools(subject: Subject) -> None:
    tensors, (mask,) = drawn(subject, 7)
    wanted = subject.call(*tensors, mask)
    for dtype in (torch.long, torch.float32, torch.uint8):
        assert torch.equal(subject.call(*tensors, mask.to(dtype)), wanted)


@pytest.mark.parametrize("subject", EVERYTHING, ids=str)
@given(seed=SEEDS)
def test_permuting_rows_permutes_results(subject: Subject, seed: int) -> None:
    if subject.name in ("token_logprobs T=1.0", "token_logprobs T=0.7", "next_token_logprobs"):
        return  # their tokens are fixed in the table: test_logprobs.py permutes both
    tensors, masks = drawn(subject, seed)
    order = torch.randperm(tensors[0].shape[0], generator=torch.Generator().manual_seed(seed))
    result = subject.call(*tensors, *masks)
    permuted = subject.call(*(x[order] for x in tensors), *(m[order] for m in masks))
    expected = result if subject.reduces else result[order]
    torch.testing.assert_close(permuted, expected, atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("subject", EVERYTHING, ids=str)
@given(seed=SEEDS, scale=st.sampled_from([1e-2, 1.0, 5.0]))
def test_float32_agrees_with_float64(subject: Subject, seed: int, scale: float) -> None:
    tensors, masks = drawn(subject, seed, scale=scale, dtype=torch.float32)
    single = subject.call(*tensors, *masks)
    double = subject.call(*(x.double() for x in tensors), *masks)
    assert single.dtype == torch.float32
    assert double.dtype == torch.float64
    torch.testing.assert_close(single.double(), double, atol=2e-5, rtol=2e-5)


def finite_floats(limit: float) -> st.SearchStrategy[float]:
    limit = torch.tensor(limit).item()  # representable in float32, as hypothesis asks
    return st.floats(
        -limit, limit, allow_nan=False, allow_infinity=False, width=32
    ) | st.sampled_from([0.0, limit, -limit, 1.0, -1.0, 2.0**-126, -(2.0**-149)])


def filled(
    data: st.DataObject, subject: Subject, limit: float
) -> tuple[list[Tensor], list[Tensor]]:
    """Float32 tensors of hypothesis' own choice, and a mask."""
    shape = SHAPES[subject.name]
    size = int(torch.tensor(shape).prod())
    few = st.lists(finite_floats(limit), min_size=1, max_size=4)
    tensors = []
    for _ in range(subject.inputs):
        values = data.draw(few)
        tensors.append(torch.tensor((values * size)[:size]).reshape(shape))
    _, masks = drawn(subject, data.draw(st.integers(0, 50)))
    return tensors, masks


@pytest.mark.parametrize("subject", EVERYTHING, ids=str)
@given(data=st.data())
def test_finite_input_never_gives_nan(subject: Subject, data: st.DataObject) -> None:
    """Up to a tenth of the largest float32, where four terms still add up without overflow."""
    for result in with_gradients(subject, *filled(data, subject, 3e37)):
        assert not result.isnan().any()


BOUNDED_BY_CLAMP = [
    s
    for s in EVERYTHING
    if s.name.startswith(
        ("ppo", "cispo", "decoupled", "kl_estimate", "importance", "policy", "token_log")
    )
    and "None" not in s.name
]


@pytest.mark.parametrize("subject", BOUNDED_BY_CLAMP, ids=str)
@given(data=st.data())
def test_the_default_clamp_keeps_results_finite(subject: Subject, data: st.DataObject) -> None:
    for result in with_gradients(subject, *filled(data, subject, 1e14)):
        assert result.isfinite().all()


@pytest.mark.parametrize("subject", EVERYTHING, ids=str)
def test_inputs_are_left_as_they_were(subject: Subject) -> None:
    tensors, masks = drawn(subject, 7)
    before = [x.clone() for x in tensors + masks]
    subject.call(*tensors, *masks)
    for x, y in zip(before, tensors + masks, strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize("subject", [s for s in EVERYTHING if s.grads], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_gradcheck(subject: Subject, seed: int) -> None:
    tensors, masks = drawn(subject, seed)
    if subject.name.startswith(("ppo", "cispo", "decoupled")):
        # Away from the kinks of the clips, where no derivative exists.
        tensors[0] = tensors[1] + (tensors[0] * 3).round() / 3 + 0.05
    differentiable = list(subject.grads)
    leaves = [tensors[i].requires_grad_() for i in differentiable]

    def call(*leaves: Tensor) -> Tensor:
        arguments = list(tensors)
        for i, leaf in zip(differentiable, leaves, strict=True):
            arguments[i] = leaf
        return subject.call(*arguments, *masks)

    if subject.name.startswith("cispo") or "sequence" in subject.name:
        # A stop-gradient is part of their definition: see test_losses.py for their gradients.
        stopped = torch.autograd.grad(call(*leaves).sum(), leaves)
        assert all(g.isfinite().all() for g in stopped)
        return
    assert torch.autograd.gradcheck(call, leaves)
