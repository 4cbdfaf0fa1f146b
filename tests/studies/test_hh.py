"""The comparison's measure and its best of n, on a tiny model and the comparisons of chapter 21."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from nbkit.envs.helpful import HelpfulVocabulary, encode_pairs, preference_pairs
from nbkit.text.tiny_models import tiny_model
from studies import _hh_data
from studies._hh import BEST_OF, METHODS, World, best_of_n, course, measured, speed

pytestmark = [pytest.mark.slow, pytest.mark.chapter(21, 22)]


@pytest.fixture(scope="module")
def world() -> World:
    torch.set_num_threads(1)
    vocabulary = HelpfulVocabulary()
    pairs = encode_pairs(preference_pairs(96, seed=4), vocabulary)
    start = tiny_model(vocabulary, seed=4, max_length=64)
    few = replace(_hh_data.JUDGES, steps=6, batch_size=16)
    proxy, gold = (
        _hh_data.judge_of(
            start, some, pairs[64:], vocabulary.pad_id, rate=3e-3, seed=4, settings=few
        )
        for some in (pairs[:32], pairs[32:64])
    )
    return World(start.requires_grad_(False), proxy, gold, vocabulary, pairs[:32])


@pytest.fixture(scope="module")
def asked(world: World) -> list[Any]:
    pairs = encode_pairs(preference_pairs(12, seed=9), world.vocabulary)
    return [replace(pair, row=number) for number, pair in enumerate(pairs)]


SMALL: dict[str, dict[str, Any]] = {
    "PPO": {"updates": 2, "prompts": 8},
    "online DPO": {"updates": 2, "prompts": 4},
    "RLOO": {"updates": 2, "prompts": 2},
    "DPO": {"steps": 2, "batch_size": 8},
    "SimPO": {"steps": 2, "batch_size": 8},
}


@pytest.mark.parametrize("method", METHODS)
def test_a_course_begins_at_the_start_and_moves_away(
    world: World, asked: list[Any], method: str
) -> None:
    before = [p.clone() for p in world.start.parameters()]
    settings = {"learning_rate": 1e-2, **SMALL[method]}
    if "prompts" in settings:
        settings |= {"sampler_dtype": None, "max_new_tokens": 12}
    found = course(world, method, 3, settings, asked, max_new_tokens=12, kept=(1, 5))
    points = found["points"]
    assert [point["update"] for point in points] == [0, 1, 2]
    assert abs(points[0]["kl"]) < 1e-6 < points[-1]["kl"]
    assert set(points[0]["texts"]) == {"1", "5"}
    assert found["skipped"] == 0
    assert all(map(torch.equal, before, world.start.parameters()))  # the start stays as it was


def test_the_best_of_more_scores_higher_by_the_proxy(world: World, asked: list[Any]) -> None:
    found = best_of_n(world, asked, seed=2, max_new_tokens=12)
    proxies = [point["proxy"] for point in found["points"]]
    assert [point["n"] for point in found["points"]] == list(BEST_OF)
    assert all(a < b for a, b in pairwise(proxies))
    one = measured(world, world.start, asked, seed=2, max_new_tokens=12)
    assert proxies[0] == pytest.approx(one["proxy"], abs=0.5)  # other samples of the same policy
    assert found["answers"] == len(asked) * max(BEST_OF)


def test_the_seconds_of_an_update_are_a_median_of_what_was_timed(world: World) -> None:
    found = speed(world, "DPO", {"learning_rate": 1e-3, **SMALL["DPO"]}, updates=3)
    assert 0 < found["update_seconds"] < 30
    assert found["updates"] == 2
