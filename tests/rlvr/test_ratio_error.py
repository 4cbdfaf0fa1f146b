"""What sampler and trainer differ by: in float32, in bfloat16, and with importance weights."""

from functools import cache

import pytest
import torch

from nbkit.parallel import ParallelConfig, World, connect
from nbkit.trainers.grpo import GRPOTrainer
from tests.rlvr.small import PROBLEMS, VOCABULARY, by_length, config, generator, model

pytestmark = pytest.mark.chapter(23)
FLAT, SHARP, SHARPER = 1.0, 3.0, 6.0  # what the matrices of the untrained model are multiplied by


@cache
def first_update(precision, sharpness, cap=None):
    """Metrics of one update of one gradient step, by a trainer and a sampler of this precision."""
    net = model(layers=4, width=64)
    with torch.no_grad():
        for weight in net.parameters():
            if weight.ndim > 1:
                weight.mul_(sharpness)
    low = precision == "bfloat16"
    settings = config(
        prompts=8,
        group_size=8,
        max_new_tokens=24,
        importance_cap=cap,
        sampler_dtype="bfloat16" if low else None,
    )
    parallel = connect(ParallelConfig(precision=precision), World())
    one = GRPOTrainer(
        net, VOCABULARY, PROBLEMS, by_length, settings, generator=generator(7), parallel=parallel
    )
    return one.step()


@pytest.mark.parametrize("sharpness", [FLAT, SHARP])
def test_in_float32_it_is_rounding(sharpness):
    found = first_update("float32", sharpness)
    assert 0 < found["ratio_error"] < 1e-3 and found["clip_fraction"] == 0


def test_in_bfloat16_it_grows_with_the_sharpness_of_the_policy():
    flat, sharp, sharper = (first_update("bfloat16", s) for s in (FLAT, SHARP, SHARPER))
    assert flat["entropy"] > 2.5 and sharp["entropy"] < 1.5
    assert 0.01 < flat["ratio_error"] < 0.2 and flat["clip_fraction"] == 0
    assert 0.3 < sharp["ratio_error"] < sharper["ratio_error"]
    assert sharper["entropy"] < 1 and sharper["ratio_error"] > 2


def test_rounding_is_clipped_unless_weights_take_it():
    """The same samples: without a cap the clip acts before any step; with one it cannot."""
    plain, weighted = (first_update("bfloat16", SHARP, cap) for cap in (None, 2.0))
    assert plain["entropy"] == weighted["entropy"]
    assert plain["clip_fraction"] > 0.01
    assert weighted["clip_fraction"] == 0 and weighted["ratio_error"] < 1e-5
    assert weighted["sampler_error"] > 0.3
    assert 0.9 < weighted["importance_weight"] < 1.1  # their mean over the sampler's tokens is 1
    exact = first_update("float32", SHARP, 2.0)
    assert exact["importance_weight"] == pytest.approx(1, abs=1e-4)
    assert exact["sampler_error"] < 1e-3
