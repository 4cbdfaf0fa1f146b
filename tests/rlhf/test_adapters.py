"""Adapters: nothing at first, off is off, merged is the same function, then all is as before."""

import pytest
import torch
from torch import nn

from nbkit.envs.helpful import HelpfulVocabulary
from nbkit.generate import generate
from nbkit.text.adapters import add_adapters
from nbkit.text.tiny_models import tiny_model

pytestmark = pytest.mark.chapter(21)
IDS = torch.tensor([[1, 3, 7, 9, 11], [1, 3, 8, 8, 12]])


def adapted(dtype: torch.dtype = torch.float32):  # type: ignore[no-untyped-def]
    model = tiny_model(HelpfulVocabulary(), seed=1, width=32, layers=2, heads=2, max_length=64)
    model = model.eval().to(dtype)
    before = model(IDS).logits
    adapters = add_adapters(model, 4, seed=2)
    return model, adapters, before


def test_nothing_changes_at_first_and_only_adapters_learn() -> None:
    model, adapters, before = adapted()
    assert torch.equal(model(IDS).logits, before)
    learning = {id(p) for p in model.parameters() if p.requires_grad}
    assert learning == {id(p) for p in adapters.parameters()}
    model(IDS).logits.sum().backward()
    assert all(p.grad is not None for p in adapters.up.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_off_merged_and_back(dtype: torch.dtype) -> None:
    model, adapters, before = adapted(dtype)
    weights = {name: p.clone() for name, p in model.named_parameters()}
    with torch.no_grad():
        for p in adapters.up.values():
            p.normal_(std=0.3)
        weights |= {f"adapters.up.{name}": p.clone() for name, p in adapters.up.items()}
        moved = model(IDS).logits
        assert not torch.allclose(moved, before, atol=1e-3)
        with adapters.off():
            assert torch.equal(model(IDS).logits, before)
        with adapters.merged():
            tolerance = 1e-5 if dtype == torch.float32 else 0.2
            torch.testing.assert_close(model(IDS).logits, moved, atol=tolerance, rtol=0)
        assert torch.equal(model(IDS).logits, moved)
    for name, p in model.named_parameters():
        assert torch.equal(p, weights[name]), name


def test_engine_samples_with_merged_adapters() -> None:
    model, adapters, _ = adapted()
    with torch.no_grad():
        for p in adapters.up.values():
            p.normal_(std=0.5)
    with adapters.merged():
        made = generate(model, IDS.tolist(), max_new_tokens=6, temperature=0.0)
    ids = IDS
    for _ in range(6):
        with torch.no_grad():
            ids = torch.cat([ids, model(ids).logits[:, -1].argmax(-1, keepdim=True)], 1)
    assert torch.equal(made.tokens, ids[:, 5:])


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(ValueError, match="no linear map"):
        add_adapters(nn.Sequential(nn.Linear(2, 2)), 1)
    with pytest.raises(ValueError, match="rank"):
        add_adapters(nn.Sequential(nn.Linear(2, 2)), 0, targets=("0",))
