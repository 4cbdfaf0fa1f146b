"""The comparison of attention kernels: what it gives them, and what it counts."""

import math
import sys
from pathlib import Path

import pytest
import torch
from torch.nn.attention import SDPBackend

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import masked_attention as bench


def test_all_scores_are_near_the_one_asked_for():
    queries, keys, _ = bench.inputs(32, -120.0, "cpu", 0)
    scores = queries.float() @ keys.float().mT / math.sqrt(bench.SIZE)
    assert scores.max() < -118 and scores.min() > -122


def test_every_row_sees_something_and_none_the_future():
    masks = bench.masks(12, "cpu")
    assert masks["none"] is None
    for word in ("causal", "padded"):
        assert masks[word].any(1).all() and not masks[word].triu(1).any()
    assert not masks["padded"][5:, :4].any()


def test_a_kernel_of_this_machine_is_right_and_finite():
    given = bench.inputs(64, -120.0, "cpu", 0)
    for mask in bench.masks(64, "cpu").values():
        found = bench.tried(SDPBackend.MATH, given, mask)
        assert not found["refused"] and not any(found["not_finite"].values())
        assert found["error"] < 0.05


def test_what_is_not_finite_is_counted(monkeypatch):
    def broken(queries, keys, values, **_):
        return values + torch.sqrt(queries - queries)  # its gradient at 0 is not finite

    given = bench.inputs(64, -120.0, "cpu", 0)
    monkeypatch.setattr(bench, "scaled_dot_product_attention", broken)
    monkeypatch.setattr(torch.autograd, "grad", _grad_of_all(torch.autograd.grad))
    found = bench.tried(SDPBackend.MATH, given, None)["not_finite"]
    assert found["queries"] == given[0].numel() and found["values"] == 0


def _grad_of_all(plain):
    return lambda output, inputs: plain(output, inputs, allow_unused=True, materialize_grads=True)


def test_a_kernel_that_does_not_take_it_is_no_failure(monkeypatch):
    def refuses(*_, **__):
        raise RuntimeError("No available kernel")

    given = bench.inputs(64, -40.0, "cpu", 0)
    plain, calls = bench.scaled_dot_product_attention, []

    def first_right(*given, **options):
        calls.append(1)
        return plain(*given, **options) if len(calls) == 1 else refuses()

    monkeypatch.setattr(bench, "scaled_dot_product_attention", first_right)
    assert bench.tried(SDPBackend.MATH, given, None) == {"refused": True}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: cuDNN's kernel is one")
def test_cudnn_is_tried_on_a_gpu():
    given = bench.inputs(128, -40.0, "cuda", 0)
    assert "refused" in bench.tried(SDPBackend.CUDNN_ATTENTION, given, None)
