"""Parameters that are ignored, and shortcuts at their usual values: each must be noticed.

What is not noticed all the same is no mistake, for the reason beside it.
"""

import re
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from bookkit.exercises.bench import Bench
from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Exercise
from bookkit.exercises.registry import all_exercises
from bookkit.exercises.special import Setting, special_cases
from bookkit.exercises.sweep_defaults import again_at, early, ignored
from tests.exercises.small import small_exercise
from tests.exercises.test_every_exercise import of_exercise

SEED = 2
EXERCISES = all_exercises()
# No mistake, and why not: such a value is not asked for, or the right answer does not use it.
EXCUSED: dict[str, tuple[tuple[str, str], ...]] = {
    "reinforce.distinct.1": ((r".* at `n` = 0", "an n-gram has at least one token"),),
    "ppo.gae.1": ((r".* at `terminated` all true", "a step that terminates is done, too"),),
    "ppo.autoreset.1": ((r".* at `terminated` all true", "behind an end stands a dummy"),),
    "ppo.minibatch.1": ((r".* at `epochs` = 0", "without an epoch there is no batch"),),
    "rlhf.last.1": ((r"`pad_id` = .* whatever is given", "the last token is that of the mask"),),
    "dpo.logprob.1": ((r".* at `mask` all true", "the first token has no prediction"),),
    "dpo.loss.1": ((r".* at `beta` = 0", "without a price there is nothing to learn"),),
    "dpo.smoothing.1": (
        (r".* at `beta` = 0", "without a price there is nothing to learn"),
        (r".* at `flipped` = 1", "a share of flipped labels is below one half"),
    ),
    "rlvr.noise.1": ((r".* at `false_\w+` = 1", "such a verifier cannot be corrected for"),),
    "rlvr.aggregate.1": ((r".* at `max_tokens` = 0", "an answer has at least one token"),),
    "rlvr.overlong.1": (
        (r".* at `(limit|buffer)` = [01]", "lengths and buffer lie below the limit"),
    ),
    "rlvr.passk.1": ((r".* at `k` = 0", "there is at least one try"),),
    "sampling.positions.1": ((r".* at `mask` nowhere true", "a prompt has at least one token"),),
    "ddp.streams.1": (
        (r".* at `(batch|group_size)` = 0", "a batch has rows, a group has samples"),
    ),
    "ddp.ports.1": ((r".* at `(first|low|high)` = .*", "no port has a number so low"),),
    "shard.gather.1": ((r".* at `into` = 0", "a layer has inputs"),),
    "shard.clip.1": ((r".* at `max_norm` = 0", "libraries take 0 for no clipping"),),
    "shard.hand_over.1": ((r".* at `rows` = 0", "a weight has rows"),),
    "zero.memory.1": (
        (r".* at `parameters` = 0", "a model has parameters"),
        (r".* at `stage` = 0", "without sharding nothing is offloaded"),
    ),
    "zero.batch.1": ((r".* at `ranks` = 0", "there is at least one rank"),),
    "zero.choose.1": ((r"`word` is zero at .* = [01]", "a size of one byte or none"),),
    "robot.stack.1": ((r".* at `begins` nowhere true", "the first step begins an episode"),),
    "robot.shift.1": ((r".* at `pad` = 0", "without a border there is no offset"),),
    "robot.latency.1": ((r".* at `begins` .* true", "the first step alone begins all episodes"),),
}


@pytest.mark.slow
@pytest.mark.parametrize("exercise", [of_exercise(e) for e in EXERCISES.values()])
def test_what_ignores_a_parameter_or_leaves_early_fails(exercise: Exercise) -> None:
    bench = Bench(exercise, SEED)
    left = ignored(bench) + early(bench)
    for pattern, _ in EXCUSED.get(exercise.id, ()):
        found = [name for name in left if re.fullmatch(pattern, name)]
        assert found, f"nothing like {pattern} passes any more: take it out of the list"
        left = [name for name in left if name not in found]
    assert not left


def discounted(x: Tensor, gamma: float) -> Tensor:
    """(B, T) -> (B,): the sum of gamma^t · x_t."""
    return (x * gamma ** torch.arange(x.shape[1], dtype=x.dtype)).sum(dim=1)


def drawn(draw: Draw) -> Case:
    x = draw.normal(draw.dimension(), draw.dimension())
    return Case("drawn", {"x": x, "gamma": draw.choice([0.5, 0.9])})


def with_gamma(*drawn_too: float) -> Exercise:
    """An exercise whose draws have γ = 0.5 and 0.9, and, if it says so, special values."""
    return small_exercise(
        cases=drawn,
        edges=lambda: (),
        oracle=lambda x, gamma: [sum(a * gamma**t for t, a in enumerate(row)) for row in x],
        reference=discounted,
        no_gradient_to=(),
        special=tuple(("gamma", value) for value in drawn_too),
    )


def test_a_shortcut_passes_where_its_value_is_not_drawn_and_fails_where_it_is() -> None:
    missing = early(Bench(with_gamma(), SEED))
    assert "`total` is zero at `gamma` = 0" in missing
    assert "`total` is without a gradient at `gamma` = 1" in missing
    assert "0 taken for nothing given at `gamma` = 0" in missing
    assert any("at `gamma` = 0.99" in name for name in missing)
    assert early(Bench(with_gamma(0.0, 0.99, 1.0), SEED)) == []


def at_one(draw: Draw) -> Case:
    case = drawn(draw)
    return replace(case, inputs=Setting("gamma", 1.0).put_in(case.inputs))


def test_a_parameter_that_all_cases_leave_as_it_is_can_be_ignored() -> None:
    assert ignored(Bench(with_gamma(), SEED)) == []
    fixed = replace(with_gamma(), cases=at_one)
    assert ignored(Bench(fixed, SEED)) == ["`gamma` = 1 whatever is given"]


def test_masks_are_tried_empty_and_full() -> None:
    assert early(Bench(small_exercise(), SEED)) == []
    without = small_exercise(edges=lambda: ())
    assert {name.rpartition(" at ")[2] for name in early(Bench(without, SEED))} <= {
        "`mask` nowhere true",
        "`mask` all true",
    }
    assert Setting("mask", False).name == "`mask` nowhere true"
    assert Setting("mask", True).holds({"mask": torch.ones(2, 2, dtype=torch.bool)})


def test_special_cases_have_their_value_and_its_type() -> None:
    cases = special_cases(with_gamma(1.0), 1)
    assert [case.inputs["gamma"] for case in cases] == [1.0] * len(cases) and cases
    assert all(case.is_wide and case.name == "drawn, `gamma` = 1" for case in cases)
    assert Setting("n", 1.0).put_in({"n": 3}) == {"n": 1}
    assert type(Setting("n", 1.0).put_in({"n": 3})["n"]) is int


def test_a_value_that_the_oracle_has_no_answer_for_is_left_out() -> None:
    def divided(x: list[list[float]], gamma: float) -> list[float]:
        return [sum(row) / gamma for row in x]

    exercise = replace(with_gamma(), oracle=divided)
    assert again_at(Bench(exercise, SEED), Setting("gamma", 0.0)) == []
    assert again_at(Bench(exercise, SEED), Setting("gamma", 1.0))
