"""Limits that nobody asked for: each reference with a clamp, a floor or a first-n mask must fail.

What passes all the same is either no mistake, because the numbers cannot lie beyond the limit, or
is named by the exercise under "not tested".
"""

import re

import pytest
import torch

from bookkit.exercises.bench import Bench
from bookkit.exercises.exercise import Exercise
from bookkit.exercises.registry import all_exercises
from bookkit.exercises.sweep import first_n, passes, survivors, variants
from bookkit.exercises.wide import wide_cases
from tests.exercises.small import small_exercise, weighted_sum
from tests.exercises.test_every_exercise import of_exercise

SEED = 2
EXERCISES = all_exercises()
RESULT = r"result clamped to ±(1|2|3|10)"
# No mistake: the numbers cannot lie beyond the limit.
BOUNDED = {
    "score.ess.1": (r"result at least 0\.001", "an effective size is at least 1"),
    "mdp.bellman.1": (r"`transitions` clamped .*", "probabilities are at most 1"),
    "reinforce.distinct.1": (RESULT, "a share is at most 1"),
    "ppo.entropy.1": (r"result clamped to ±(2|3|10)", "an entropy is at most the log of A"),
    "dpo.weight.1": (RESULT, "a sigmoid is at most 1"),
    "rlvr.noise.1": (r"(result|`measured`) clamped .*", "shares are at most 1"),
    "rlvr.passk.1": (RESULT, "a probability is at most 1"),
    "async.bound.1": (r"result at least 0\.001", "halves of the devices take at most three times"),
}
# A mistake that the check cannot see, and the words by which the exercise says so.
NAMED = {
    "traps.detach.1": (r"`logprobs` clamped .*", "log-probabilities below −8"),
    "traps.autocast.1": (r"result at least 0\.001", "losses under 0.001"),
    "reinforce.exact.1": (r"result clamped to ±10", "results beyond ±10"),
    "rlhf.prompt.1": (r"first n in place of `attention`", "left padding"),
    "rlhf.repair.1": (r"result clamped to ±10", "results beyond ±10"),
    "dpo.repair.1": (r"result clamped to ±10", "results beyond ±10"),
    "sampling.prefix.1": (r"result clamped to ±10", "results beyond ±10"),
    "sampling.logprob.1": (r"(`logits`|result) clamped .*", "logits beyond ±10"),
    "shard.tensor_parallel.1": (r"`up_bias` clamped to ±10", "hidden biases beyond ±10"),
    "zero.step.1": (r"`squares` clamped .*", "second moments above 2"),
    "robot.tip.1": (r"(result|`lengths`) clamped .*", "segments longer than 1"),
}


@pytest.mark.slow
@pytest.mark.parametrize("exercise", [of_exercise(e) for e in EXERCISES.values()])
def test_a_limit_that_nobody_asked_for_fails_or_is_named(exercise: Exercise) -> None:
    left = survivors(Bench(exercise, SEED))
    for pattern, _ in (t[exercise.id] for t in (BOUNDED, NAMED) if exercise.id in t):
        found = [name for name in left if re.fullmatch(pattern, name)]
        assert found, f"nothing like {pattern} passes any more: take it out of the list"
        left = [name for name in left if name not in found]
    assert not left


def test_what_a_check_cannot_see_is_named_to_the_learner() -> None:
    for name, (_, words) in NAMED.items():
        assert words in EXERCISES[name].not_tested


def test_a_clamp_passes_a_check_without_wide_cases_and_fails_one_with_them() -> None:
    narrow = small_exercise()
    assert "`x` clamped to ±10" in survivors(Bench(narrow, SEED))
    wide = small_exercise(wide=("x", "weights"), holed=("mask",))
    assert not survivors(Bench(wide, SEED))
    assert passes(Bench(wide, SEED), weighted_sum)


def test_wide_cases_have_far_entries_and_holes() -> None:
    cases = wide_cases(small_exercise(wide=("x",), holed=("mask",)), 1)
    assert all(case.is_wide for case in cases)
    far = [case for case in cases if "one far entry in `x`" in case.name]
    assert {bool((case.inputs["x"] > 30).any()) for case in far} == {True, False}
    assert all(float(case.inputs["x"].abs().max()) >= 30 for case in far)
    holes = [case.inputs["mask"] for case in cases if "holes in `mask`" in case.name]
    assert holes and all(not torch.equal(mask, first_n(mask)) for mask in holes)


def test_logarithms_of_probabilities_have_no_entry_far_above() -> None:
    exercise = EXERCISES["ppo.clip.1"]
    cases = wide_cases(exercise, 1)
    together = [case for case in cases if "one place far down in" in case.name]
    assert together
    for case in together:
        assert float(case.inputs["logprobs"].min()) < -50
        assert float((case.inputs["logprobs"] - case.inputs["old_logprobs"]).abs().max()) < 10
    assert all(float(case.inputs["logprobs"].max()) < 30 for case in cases)


def test_first_n_keeps_the_counts() -> None:
    mask = torch.tensor([[False, True, True], [True, False, False]])
    assert first_n(mask).tolist() == [[True, True, False], [True, False, False]]
    assert len(list(variants(Bench(small_exercise(), SEED)))) > 10
