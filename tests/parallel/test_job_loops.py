"""A job is a trainer and `fit`: one process or two, DDP or FSDP2, stopped or not, all are equal."""

import json

import numpy as np
import pytest

from tests.parallel import job_loops, jobs

pytestmark = [pytest.mark.slow, pytest.mark.chapter(21, 22, 32, 33)]

NAMES = tuple(job_loops.STAGES)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return jobs.ranks(1, job_loops.loops, "alone", str(tmp_path_factory.mktemp("alone")), NAMES)[0]


def equal_to_the_bit(one, other):
    (history, weights), (later, ended) = one, other
    assert history == later
    assert weights.keys() == ended.keys()
    assert all(np.array_equal(value, ended[name]) for name, value in weights.items())


def decided(name, history):
    """Without what hangs on rounding: who wins while policy and reference of DPO are one."""
    if name != "dpo":
        return history
    first = {key: value for key, value in history[0].items() if key != "accuracy"}
    return [first, *history[1:]]


def test_a_stopped_run_goes_on_to_the_same_end(alone):
    for whole, stopped in alone.values():
        equal_to_the_bit(whole, stopped)


@pytest.mark.parametrize("word", ["ddp", "fsdp2"])
def test_two_processes_equal_one(word, alone, tmp_path):
    """Odd batches of few rows a pass: the ranks differ in their rows and in their passes."""
    for found in jobs.ranks(2, job_loops.loops, word, str(tmp_path), NAMES):
        for name, (whole, stopped) in found.items():
            equal_to_the_bit(whole, stopped)
            (history, weights), (right, ended) = whole, alone[name][0]
            for one, two in zip(decided(name, history), decided(name, right), strict=True):
                assert one == pytest.approx(two, abs=2e-5), name
            assert weights.keys() == ended.keys()
            # AdamW divides by the size of a gradient, so a small one shows its rounding; the
            # learning rate is 0.01.
            assert max(np.abs(weights[key] - ended[key]).max() for key in ended) < 1e-3, name
    losses = [row["loss"] for row in alone["sft"][0][0]]
    assert losses[-1] < losses[0]
    assert alone["reward"][0][0][-1]["held_out/loss"] < alone["reward"][0][0][0]["held_out/loss"]
    prices = {row["kl_coefficient"] for row in alone["ppo"][0][0]}
    assert len(prices) == job_loops.STEPS


@pytest.mark.parametrize("word", ["single", "ddp", "fsdp2"])
def test_adapters_are_their_own_reference(word):
    """Policy and reference are one at first; only adapters move; the sampler has them inside."""
    right = jobs.ranks(1, job_loops.adapted, "alone")[0]
    for history, moved, inside in jobs.ranks(1 if word == "single" else 2, job_loops.adapted, word):
        assert abs(history[0]["kl"]) < 1e-5 < abs(history[-1]["kl"])
        assert history[-1]["sampler_error"] < 1e-4
        assert moved and all("adapters." in name for name in moved)
        for one, two in zip(history, right[0], strict=True):
            assert one == pytest.approx(two, abs=2e-5)
        assert np.abs(inside - right[2]).max() < 1e-4


@pytest.mark.parametrize("word", ["ddp", "fsdp2", "zero2"])
def test_all_ranks_skip_a_bad_batch_and_stop_for_silence_alike(word, tmp_path):
    """The nan stands in a row of rank 0 alone."""
    ((history, right, *_),) = jobs.ranks(1, job_loops.limited, "single", str(tmp_path / "alone"))
    assert [row["skipped"] for row in json.loads(history)] == [0, 1, 0, 0]
    found = jobs.ranks(2, job_loops.limited, word, str(tmp_path / word))
    assert found[0][0] == found[1][0]
    for history, weights, files, steps, status in found:
        assert [row["skipped"] for row in json.loads(history)] == [0, 1, 0, 0]
        assert files == ["step_00000002.pt"] and (steps, status) == (2, 0)
        assert all(np.isfinite(value).all() for value in weights.values())
        assert max(np.abs(weights[name] - right[name]).max() for name in right) < 1e-3
