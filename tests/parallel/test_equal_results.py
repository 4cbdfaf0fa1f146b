"""Ten steps on two ranks equal ten steps on one, on every back-end; and what a checkpoint holds."""

import numpy as np
import pytest

from tests.parallel import jobs

pytestmark = [pytest.mark.slow, pytest.mark.chapter(32, 33, 34)]

SHARDED = ("ddp", "fsdp2", "zero1", "zero2", "zero3", "zero3-offload")


@pytest.fixture(scope="module")
def alone():
    return jobs.ranks(1, jobs.sft, "single")[0]


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize("word", SHARDED)
def test_sft_on_two_ranks_equals_one_process(word, alone):
    """Rows of many lengths, so that the ranks' token counts differ in every step (D05)."""
    losses, weights = alone
    for seen, there in jobs.ranks(2, jobs.sft, word, timeout_s=120):
        np.testing.assert_allclose(seen, losses, rtol=0, atol=1e-5)
        assert max(np.abs(weights[k] - there[k]).max() for k in weights) < 1e-4
    assert losses[-1][0] < losses[0][0]


@pytest.mark.parametrize("word", ("single", *SHARDED))
def test_resumed_equals_unbroken_to_the_bit_and_reads_anywhere(word, tmp_path):
    size = 1 if word == "single" else 2
    unbroken = jobs.ranks(size, jobs.saved_and_unbroken, word, str(tmp_path), timeout_s=120)
    again = jobs.ranks(size, jobs.resumed, word, str(tmp_path), timeout_s=120)
    for (losses, middle, end), (later, start, finish) in zip(unbroken, again, strict=True):
        assert losses[5:] == later
        assert same(middle, start)
        assert same(end, finish)
    assert not same(unbroken[0][1], unbroken[0][2])
    if word != "single":
        for other, count in (("single", 1), (word, 4)):
            for _, start, _ in jobs.ranks(count, jobs.resumed, other, str(tmp_path), 0):
                assert same(unbroken[0][1], start)


@pytest.fixture(scope="module")
def grpo_alone():
    return jobs.ranks(1, jobs.grpo, "alone")[0]


@pytest.mark.parametrize("word", SHARDED)
def test_grpo_on_two_ranks_equals_one_process(word, grpo_alone):
    """The same completions, and so the same rewards; losses and norms within rounding."""
    for there in jobs.ranks(2, jobs.grpo, word, timeout_s=120):
        for one, other in zip(grpo_alone, there, strict=True):
            assert one == pytest.approx(other, abs=1e-5)
    assert len({metrics["tokens"] for metrics in grpo_alone}) > 3


def test_grpo_resumed_on_shards_equals_unbroken(tmp_path):
    unbroken = jobs.ranks(2, jobs.grpo, "fsdp2", str(tmp_path))
    assert jobs.ranks(2, jobs.grpo_resumed, "fsdp2", str(tmp_path)) == unbroken
