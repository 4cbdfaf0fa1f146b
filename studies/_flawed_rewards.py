"""Rewards that are not quite the task: wrong verdicts, part marks, marks for the form, none at all.

Each is called as the trainer calls a verifier, pays something else than the verifier of the task,
and keeps the truth on record as the parts "correct" and "format", which earn nothing by themselves.
So a run can be judged by what was meant while it learns from what was paid.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nbkit._inputs import check_choice, check_number
from nbkit.envs.arithmetic import Sum, solution
from nbkit.recipes.grpo_recipe import verifier
from nbkit.rewards.compose import Composed
from nbkit.rewards.formats import graded_format_reward, thoughts_and_answer
from nbkit.trainers.scoring import Completion


@dataclass
class NoisyVerifier:
    """The verifier, wrong at random.

    Attributes:
        false_positives: chance that a wrong answer is paid.
        false_negatives: chance that a right answer is not.
        seed: of the errors; each completion is judged anew.

    """

    false_positives: float = 0.0
    false_negatives: float = 0.0
    seed: int = 0
    _source: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_number("false_positives", self.false_positives, 0.0, 1.0)
        check_number("false_negatives", self.false_negatives, 0.0, 1.0)
        self._source = random.Random(f"verdicts {self.seed}")

    def __call__(
        self, problems: Sequence[Sum], completions: Sequence[Completion]
    ) -> list[Composed]:
        """Return 1 or 0 for each completion."""
        verdicts = []
        for truth in verifier(problems, completions):
            chance = self.false_negatives if truth.total else self.false_positives
            wrong = self._source.random() < chance
            verdicts.append(Composed(abs(truth.total - float(wrong)), truth.parts))
        return verdicts


@dataclass
class RandomReward:
    """A coin for each completion, whatever it says.

    Attributes:
        chance: of a 1.
        seed: of the coins.

    """

    chance: float = 0.5
    seed: int = 0
    _source: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_number("chance", self.chance, 0.0, 1.0)
        self._source = random.Random(f"coins {self.seed}")

    def __call__(
        self, problems: Sequence[Sum], completions: Sequence[Completion]
    ) -> list[Composed]:
        """Return 1 or 0 for each completion."""
        truths = verifier(problems, completions)
        return [Composed(float(self._source.random() < self.chance), t.parts) for t in truths]


def careless(problems: Sequence[Sum], completions: Sequence[Completion]) -> list[Composed]:
    """A verifier with a systematic error: the answer that forgets the carry counts as right too."""
    verdicts = []
    for problem, completion, truth in _judged(problems, completions):
        slip = thoughts_and_answer(solution(problem, forget_carry=True))
        found = thoughts_and_answer(completion.text)
        fooled = slip is not None and found is not None and found[1] == slip[1]
        paid = float(truth.total > 0 or (fooled and not completion.truncated))
        verdicts.append(Composed(paid, truth.parts))
    return verdicts


@dataclass(frozen=True)
class PartMarks:
    """The verifier's point, and something on top for what is not the task.

    Attributes:
        kind: "near": 1 minus the relative error of the answer; "brevity": the share of the limit
            that was not used, if the form is kept; "work": the share that was used by thoughts, if
            the form is kept; "form": the share of the tags that are in place
            (``graded_format_reward``).
        weight: of this part.
        limit: tokens, for "brevity" and "work".
        right: weight of the right answer.

    """

    kind: str
    weight: float
    limit: int = 1
    right: float = 1.0

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, ("near", "brevity", "work", "form"))
        check_number("weight", self.weight, 0.0)
        check_number("limit", self.limit, 1)
        check_number("right", self.right, 0.0)

    def __call__(
        self, problems: Sequence[Sum], completions: Sequence[Completion]
    ) -> list[Composed]:
        """Return the weighted sum for each completion."""
        rewards = []
        for problem, completion, truth in _judged(problems, completions):
            extra = _EXTRAS[self.kind](problem, completion, truth, self.limit)
            parts = {**truth.parts, self.kind: extra}
            rewards.append(Composed(self.right * truth.total + self.weight * extra, parts))
        return rewards


def _judged(
    problems: Sequence[Sum], completions: Sequence[Completion]
) -> list[tuple[Sum, Completion, Composed]]:
    return list(zip(problems, completions, verifier(problems, completions), strict=True))


def _near(problem: Sum, completion: Completion, truth: Composed, limit: int) -> float:
    found = thoughts_and_answer(completion.text)
    if completion.truncated or found is None or not found[1].isdecimal():
        return 0.0
    return max(0.0, 1 - abs(int(found[1]) - problem.answer) / problem.answer)


def _brevity(problem: Sum, completion: Completion, truth: Composed, limit: int) -> float:
    return truth.parts["format"] * max(0.0, 1 - completion.length / limit)


def _work(problem: Sum, completion: Completion, truth: Composed, limit: int) -> float:
    return truth.parts["format"] * min(1.0, completion.length / limit)


def _form(problem: Sum, completion: Completion, truth: Composed, limit: int) -> float:
    return graded_format_reward(completion.text)


_EXTRAS: dict[str, Callable[[Sum, Completion, Composed, int], float]] = {
    "near": _near,
    "brevity": _brevity,
    "work": _work,
    "form": _form,
}
