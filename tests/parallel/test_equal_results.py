"""Ten steps on two ranks equal ten steps on one, on every back-end; and what a checkpoint holds."""

from functools import cache, partial

import numpy as np
import pytest

from nbkit.parallel import BACKENDS
from nbkit.parallel.deepspeed_setup import CACHE, nvme_ready
from nbkit.parallel.export import import_model
from tests.parallel import jobs
from tests.rlvr.small import model

pytestmark = [pytest.mark.slow, pytest.mark.chapter(32, 33, 34)]

SHARDED = ("ddp", "fsdp2", "zero1", "zero2", "zero3", "zero3-offload")


@pytest.fixture(scope="module")
def alone():
    return jobs.ranks(1, jobs.all_three, "alone")[0]


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    """By back-end, once: what two ranks found, and the folder in which they saved."""

    @cache
    def run(word):
        folder = tmp_path_factory.mktemp(word)
        return jobs.ranks(2, jobs.all_three, word, str(folder)), folder

    return run


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize("word", SHARDED)
def test_ten_steps_on_two_ranks_equal_one_process(word, alone, two_ranks):
    """In SFT the ranks' token counts differ in every step (D05). In reinforcement learning the
    completions are the same, and so the rewards; losses and norms agree within rounding."""
    losses, weights = alone["sft"]
    for there in two_ranks(word)[0]:
        seen, other = there["sft"]
        np.testing.assert_allclose(seen, losses, rtol=0, atol=1e-5)
        assert max(np.abs(weights[k] - other[k]).max() for k in weights) < 1e-4
        for name in ("sft trainer", *jobs.TRAINERS):
            for one, two in zip(alone[name], there[name], strict=True):
                assert one == pytest.approx(two, abs=1e-5)
    assert losses[-1][0] < losses[0][0]
    assert alone["sft trainer"][-1]["loss"] < alone["sft trainer"][0]["loss"]
    assert len({metrics["tokens"] for metrics in alone["grpo"]}) > 3
    assert len({metrics["kl_coefficient"] for metrics in alone["rlhf"]}) > 3


@pytest.mark.parametrize("word", ("zero1-offload", "zero2-offload"))
def test_an_offloaded_optimiser_steps_like_one_process(word, alone):
    for seen, _ in jobs.ranks(2, partial(jobs.sft, word, steps=4)):
        np.testing.assert_allclose(seen, alone["sft"][0][:4], rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def partly_frozen_alone(tmp_path_factory):
    return jobs.ranks(1, jobs.sft_partly_frozen, "single", str(tmp_path_factory.mktemp("alone")))[0]


@pytest.mark.parametrize("word", ("ddp", "fsdp2", "zero1", "zero2", "zero3"))
def test_a_partly_frozen_model_learns_is_saved_and_read(word, partly_frozen_alone, tmp_path):
    right = partly_frozen_alone
    for found in jobs.ranks(2, jobs.sft_partly_frozen, word, str(tmp_path / "two")):
        before, losses, gathered, saved, after, read, again = found
        np.testing.assert_allclose(losses, right[1], rtol=0, atol=1e-5)
        assert same(saved, read) and after == again
        for name, start in before.items():
            end = saved[f"model|{name}"]
            learns = "layers.1" in name or "norm" in name
            assert np.array_equal(start, end) is not learns
            assert np.array_equal(gathered[name], end)
            assert (f"optimiser|exp_avg|{name}" in saved) is learns


@pytest.mark.parametrize("reshard", (True, False))
def test_gathered_weights_stay_whole_for_unequal_numbers_of_passes(reshard, alone):
    """A rank with more passes than the other would wait for ever if one of them sent anything."""
    right = alone["sft"][0][:3]
    for wholes, alike, steps in jobs.ranks(2, jobs.unequal_passes, reshard):
        assert wholes == [0, 1, 0]
        assert alike
        np.testing.assert_allclose(steps, right[1:], rtol=0, atol=1e-5)


def test_only_fsdp2_never_moves_a_whole_model():
    assert jobs.ranks(1, jobs.moved_whole, "fsdp2") == [0]
    assert jobs.ranks(1, jobs.moved_whole, "ddp") == [2]


def test_ddp_gives_no_warning_of_its_own():
    assert jobs.ranks(1, jobs.warnings_of, "ddp") == [[]]


@pytest.fixture(scope="module")
def low():
    return jobs.ranks(1, partial(jobs.sft, "single", steps=5, precision="bfloat16"))[0][0]


@pytest.mark.parametrize("word", ("ddp", "fsdp2", "zero1", "zero3"))
def test_in_bfloat16_they_agree_as_far_as_it_reaches(word, low, alone):
    """A bfloat16 number has 8 bits, so that rounding moves a gradient by one or two per cent."""
    exact = np.array(alone["sft"][0][:5])
    job = partial(jobs.sft, word, steps=5, precision="bfloat16")
    for seen, weights in jobs.ranks(2, job):
        found = np.array(seen)
        for right in (np.array(low), exact):
            np.testing.assert_allclose(found[:, 0], right[:, 0], rtol=0, atol=0.02)
            np.testing.assert_allclose(found[:, 1], right[:, 1], rtol=0.05)
        assert np.abs(found - exact).max() > 1e-4  # it did run in bfloat16
        assert all(x.dtype == np.float32 for x in weights.values())


@pytest.mark.parametrize("word", ("single", "ddp", "fsdp2", "zero1", "zero2", "zero3"))
def test_a_frozen_model_scores_in_the_precision_of_the_policy(word):
    """Else a KL of equal models is not 0."""
    (found,) = jobs.ranks(1, jobs.scores, word, ("float32", "bfloat16"))
    assert found.keys() == {"float32", "bfloat16"}
    for precision, (dtypes, (policy, frozen, exact)) in found.items():
        assert dtypes[0] == dtypes[1]
        assert np.array_equal(policy, frozen)
        assert np.array_equal(policy, exact) is (precision == "float32")
        np.testing.assert_allclose(policy, exact, rtol=0, atol=0.2)


@pytest.mark.parametrize("word", ("ddp", "fsdp2", "zero1", "zero3"))
def test_a_step_without_a_micro_batch_is_refused(word):
    for said in jobs.ranks(2, jobs.steps_without_a_micro_batch, word):
        assert len(said) == 2
        assert all(line.startswith("a step without a micro-batch") for line in said)


OTHERS = {
    "deep into shallow": "is of another model: it holds model.layers.2.input_layernorm.weight",
    "deep into shallow, SGD": "is of another model: it holds model.layers.2.input_layernorm.weight",
    "imported deep into shallow": "another model: it holds model.layers.2.input_layernorm.weight",
    "shallow into deep": "is of another model: it lacks model.layers.2.input_layernorm.weight",
    "wide into narrow": "is of another model: there the shape of model|",
    "AdamW into SGD": "is of another optimiser: AdamW wrote it, here is SGD",
}


@pytest.mark.parametrize("word", ("single", "fsdp2", "zero1"))
def test_checkpoints_of_other_models_and_optimisers_are_refused(word, tmp_path):
    model(layers=3, width=16).save_pretrained(tmp_path / "hub")
    import_model(tmp_path / "hub", tmp_path / "imported")
    size = 1 if word == "single" else 2
    for said in jobs.ranks(size, jobs.other_models, word, str(tmp_path)):
        assert said.keys() == OTHERS.keys()
        for name, words in OTHERS.items():
            assert words in said[name]


BUILT = (CACHE / "async_io" / "async_io.so").exists() and nvme_ready()


@pytest.mark.skipif(not BUILT, reason="needs libaio-dev, then `nbkit build-deepspeed`")
def test_the_optimiser_on_a_disk_equals_one_process(tmp_path):
    """Tensors below a megabyte stay in memory, so this model is larger than the others."""
    right, nothing = jobs.ranks(1, jobs.sft_on_disk, "single", str(tmp_path))[0]
    assert nothing == 0
    for seen, on_disk in jobs.ranks(2, jobs.sft_on_disk, "zero3-nvme", str(tmp_path)):
        np.testing.assert_allclose(seen, right, rtol=1e-5)
        assert on_disk > 8 * 400_000  # both moments of most weights


@pytest.mark.parametrize("word", [word for word in BACKENDS if BUILT or word != "zero3-nvme"])
def test_one_process_without_a_launcher_is_enough(word, alone, tmp_path):
    (losses,) = jobs.ranks(1, jobs.without_a_launcher, word, str(tmp_path))
    np.testing.assert_allclose(losses, alone["sft"][0][:3], rtol=0, atol=1e-5)


@pytest.mark.parametrize("word", ("single", *SHARDED))
def test_resumed_equals_unbroken_to_the_bit_and_reads_anywhere(word, tmp_path):
    """The weights, the state and the losses, with each rank's random numbers (D19)."""
    size = 1 if word == "single" else 2
    unbroken = jobs.ranks(size, jobs.saved_and_unbroken, word, str(tmp_path))
    again = jobs.ranks(size, jobs.resumed, word, str(tmp_path))
    for (losses, middle, end), (later, start, finish) in zip(unbroken, again, strict=True):
        assert losses[5:] == later
        assert same(middle, start)
        assert same(end, finish)
    assert not same(unbroken[0][1], unbroken[0][2])
    if word in ("fsdp2", "zero3"):
        for other, count in (("single", 1), (word, 4)):
            reads = jobs.ranks(count, jobs.resumed, other, str(tmp_path), 0)
            assert all(same(unbroken[0][1], start) for _, start, _ in reads)


@pytest.mark.parametrize("word", ("fsdp2", "zero1", "zero3"))
def test_resumed_in_bfloat16_equals_unbroken_to_the_bit(word, tmp_path):
    """DeepSpeed has another class for stage 1 in bfloat16, with other names."""
    low = {"precision": "bfloat16"}
    unbroken = jobs.ranks(2, partial(jobs.saved_and_unbroken, **low), word, str(tmp_path))
    again = jobs.ranks(2, partial(jobs.resumed, **low), word, str(tmp_path))
    for (losses, middle, end), (later, start, finish) in zip(unbroken, again, strict=True):
        assert losses[5:] == later
        assert same(middle, start)
        assert same(end, finish)


@pytest.mark.parametrize("word", ("fsdp2", "ddp", "zero3"))
@pytest.mark.parametrize("name", jobs.TRAINERS)
def test_reinforcement_resumed_equals_unbroken(name, word, two_ranks):
    """A new process has other random numbers until it reads those of each rank (D19)."""
    unbroken, folder = two_ranks(word)
    again = jobs.ranks(2, jobs.trained_on, name, word, str(folder / name))
    assert again == [found[name] for found in unbroken]
