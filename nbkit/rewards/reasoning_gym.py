"""Tasks of reasoning-gym as prompts and a verifier.

reasoning-gym (Stojanovski et al., 2025) has over a hundred generators, each with its own scoring.
The adapter makes their scores fit for a reward: an answer must be stated where the form says; the
0.01 that some tasks pay for anything is taken away; an error of a task's scoring is raised; and
tasks whose scoring runs the answer as Python are refused, since the answer comes from a policy.
"""

import inspect
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from nbkit.rewards.answers import extract_answer
from nbkit.rewards.symbolic import VerifierError

# Tested: the stated answer scores 1, nonsense and silence score 0, another's answer does not pass.
TASKS = (
    *("ab", "aiw", "base_conversion", "caesar_cipher", "calendar_arithmetic", "chain_sum"),
    *("count_bits", "count_primes", "family_relationships", "gcd", "lcm", "leg_counting"),
    *("letter_counting", "maze", "number_sequence", "products", "simple_equations"),
    *("simple_geometry", "spell_backward", "string_manipulation"),
)
_JUNK = ("zzz", "")
_RUNS_TEXT = re.compile(r"(?<![\w.])(?:eval|exec)\s*\(|\b(?:parse_expr|sympify)\s*\(")


@dataclass(frozen=True)
class Question:
    """One problem: what the model is asked, and the stated answer (None where a task has none)."""

    prompt: str
    answer: str | None
    entry: dict[str, Any]


class GymTask:
    """A reasoning-gym task: a list of questions and the score of a completion.

    Args:
        name: of the task, such as ``"chain_sum"``; ``TASKS`` lists twenty that are tested.
        size: how many questions.
        seed: of the generator; the same seed gives the same questions.
        style: where the answer stands in a completion; see ``extract_answer``. ``"whole"`` takes
            the whole completion.
        binary: 1.0 for full marks, else 0.0. Otherwise the task's own share of the marks, without
            what it pays for nonsense.
        allow_evaluation: accept a task whose scoring runs the answer as Python in this process.
        settings: of the task's generator.

    Raises:
        ValueError: an unknown task, or one that runs answers as Python.

    """

    def __init__(
        self,
        name: str,
        *,
        size: int,
        seed: int,
        style: str = "tags",
        binary: bool = True,
        allow_evaluation: bool = False,
        **settings: Any,
    ) -> None:
        from reasoning_gym import create_dataset
        from reasoning_gym.factory import DATASETS

        if name not in DATASETS:
            raise ValueError(f"name: reasoning-gym has no task {name!r}")
        if not allow_evaluation and (module := _runs_answers(name)):
            raise ValueError(
                f"name: the task {name!r} may run the policy's answer as Python ({module}); choose "
                "another, or say allow_evaluation=True inside a sandbox of your own"
            )
        self.name, self.style, self.binary = name, style, binary
        self._data = create_dataset(name, size=size, seed=seed, **settings)
        entries = [self._data[index] for index in range(size)]
        self.questions = [Question(e["question"], e["answer"], e) for e in entries]

    def __len__(self) -> int:
        return len(self.questions)

    def score(self, index: int, completion: str) -> float:
        """Return the reward of a completion for the question ``index``.

        Raises:
            VerifierError: the task's own scoring failed; the sample has no reward.

        """
        answer = (
            completion.strip()
            if self.style == "whole"
            else extract_answer(completion, style=self.style)
        )
        if not answer:
            return 0.0
        entry = self.questions[index].entry
        marks = self._marks(answer, entry)
        if self.binary:
            return float(marks >= 1.0 - 1e-9)
        return marks if marks > self._floor(index) else 0.0

    def _floor(self, index: int) -> float:
        """What the task pays for nonsense."""
        return max(self._marks(junk, self.questions[index].entry) for junk in _JUNK)

    def _marks(self, answer: str, entry: dict[str, Any]) -> float:
        try:
            return float(self._data.score_answer(answer, entry))
        except Exception as error:  # whatever the task raises is not the policy's fault
            raise VerifierError(f"{self.name}: {type(error).__name__}: {error}") from error


@cache
def _runs_answers(name: str) -> str:
    """The module of a task if its source runs text as Python, else ""."""
    from reasoning_gym.factory import DATASETS

    module = inspect.getmodule(DATASETS[name][0])
    assert module is not None
    return module.__name__ if _RUNS_TEXT.search(inspect.getsource(module)) else ""
