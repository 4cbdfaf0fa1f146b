"""A pupil that adds two numbers and often forgets the carry: what build 24 trains, and its marks.

A text is a sum with its answer, `47+8=55`. The lessons plant a fault, as chapter 24's do: a share
of the sums with a carry leaves it out (`47+8=45`). Reinforcement learning has to remove it.
"""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bookkit.builds.session import Stopped
from bookkit.builds.wire import Arrays
from nbkit.text.policies import LSTMPolicy, TextPolicy
from nbkit.text.vocabulary import CharVocabulary
from nbkit.trainers.pretraining import pretrain

WIDTH, LESSONS, STEPS = 128, 12_000, 1000
FORGET = 0.6
HELD_OUT = 120
ANSWER = 4  # tokens of an answer at most, the end included
EARLY, OFTEN = 3, 10
CHARACTERS = "0123456789+="


class Shuffled(CharVocabulary):
    """The characters under numbers of this run: a file that cannot read cannot add by itself."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__(CHARACTERS)
        letters = list(self.characters)
        draw.shuffle(letters)
        self.characters = "".join(letters)
        self._ids = {letter: number + 3 for number, letter in enumerate(letters)}


@dataclass(frozen=True)
class Sums:
    """Problems of one run.

    Attributes:
        practice: what the lessons and the training hold.
        kept: what only the judge asks.
        vocabulary: which number stands for which character.

    """

    practice: tuple[tuple[int, int], ...]
    kept: tuple[tuple[int, int], ...]
    vocabulary: CharVocabulary

    @classmethod
    def drawn(cls, draw: random.Random) -> "Sums":
        """Split all sums of two digits and one."""
        every = [(a, b) for a in range(10, 90) for b in range(3, 10)]
        draw.shuffle(every)
        return cls(tuple(every[HELD_OUT:]), tuple(every[:HELD_OUT]), Shuffled(draw))

    def prompt(self, problem: tuple[int, int]) -> list[int]:
        """BOS and the sum up to its equals sign; as long for every problem."""
        told = self.vocabulary.encode(f"{problem[0]}+{problem[1]}=")
        return [self.vocabulary.bos_id, *told]

    def right(self, problem: tuple[int, int]) -> str:
        """The answer that gets the mark."""
        return str(problem[0] + problem[1])


def taught(sums: Sums, draw: random.Random) -> LSTMPolicy:
    """A pupil after its lessons, from a seed of its own."""
    seed = draw.randrange(2**31)
    torch.manual_seed(seed)
    known = sums.vocabulary
    pupil = LSTMPolicy(len(known), width=WIDTH)
    texts = [_lesson(draw.choice(sums.practice), draw) for _ in range(LESSONS)]
    pretrain(pupil, known, texts, steps=STEPS, learning_rate=1e-2, seed=seed, progress=False)
    return pupil.requires_grad_(False)


def _lesson(problem: tuple[int, int], draw: random.Random) -> str:
    a, b = problem
    carries = a % 10 + b >= 10
    forgotten = 10 if carries and draw.random() < FORGET else 0
    return f"{a}+{b}={a + b - forgotten}"


@torch.no_grad()
def answers(
    pupil: TextPolicy, sums: Sums, problems: list[tuple[int, int]], generator: torch.Generator
) -> list[str]:
    """One answer to each problem, sampled."""
    ids = torch.tensor([sums.prompt(problem) for problem in problems])
    state: Any = None
    for place in range(ids.shape[1]):
        logits, state = pupil.step(ids[:, place], state)
    tokens = []
    for _ in range(ANSWER):
        tokens.append(torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0])
        logits, state = pupil.step(tokens[-1], state)
    return [sums.vocabulary.decode(row) for row in torch.stack(tokens, 1).tolist()]


def accuracy(pupil: TextPolicy, sums: Sums, generator: torch.Generator, *, each: int = 8) -> float:
    """The share of right answers to the sums that were kept back."""
    problems = [problem for problem in sums.kept for _ in range(each)]
    said = answers(pupil, sums, problems, generator)
    marks = [text == sums.right(problem) for text, problem in zip(said, problems, strict=True)]
    return sum(marks) / len(marks)


@dataclass
class Graded:
    """The judge's side of the world: draws problems, marks answers, counts tokens.

    Attributes:
        sums: the problems.
        draw: of the problems.
        budget: tokens of answers.
        offset: how far rewards differ from problem to problem for no merit of the answers.
        used: tokens so far.
        answered: answers so far.
        means: (answers so far, share of right ones) of each batch.
        alike: of the first batches, those in which all answers to each problem are one.
        again: of the first batches, those that were scored before.
        single: batches in which some problem has one answer only.

    """

    sums: Sums
    draw: random.Random
    budget: int
    offset: float = 0.0
    used: int = 0
    answered: int = 0
    alike: int = 0
    again: int = 0
    single: int = 0

    def __post_init__(self) -> None:
        self.means: list[tuple[float, float]] = []
        self._seen: set[bytes] = set()
        self._offsets = [self.offset * self.draw.uniform(-1, 1) for _ in self.sums.practice]

    def answer(
        self, kind: str, data: dict[str, Any], arrays: Arrays
    ) -> tuple[dict[str, Any], Arrays]:
        """Answer `problems` and `score`.

        Raises:
            Stopped: arguments that do not fit, or more tokens than the budget.

        """
        if kind == "problems":
            count = data.get("count")
            if type(count) is not int or not 0 < count <= 4096:
                raise Stopped(f"`world.problems` wants a number from 1 to 4096; it got {count!r}")
            numbers = np.array([self.draw.randrange(len(self.sums.practice)) for _ in range(count)])
            prompts = [self.sums.prompt(self.sums.practice[number]) for number in numbers]
            return {}, {"numbers": numbers.astype(np.int64), "prompts": np.array(prompts)}
        if kind == "score":
            rewards = self._score(arrays.get("ids"), arrays.get("numbers"))
            return {"tokens_left": self.budget - self.used}, {"rewards": rewards}
        raise Stopped(f"your process asked for {kind!r}, which the world does not answer")

    def _score(self, ids: Any, numbers: Any) -> Any:
        fits = all(part is not None and part.dtype == np.int64 for part in (ids, numbers))
        fits = fits and ids.ndim == 2 and len(ids) > 0
        if not fits or numbers.shape != ids.shape[:1] or not 0 < ids.shape[1] <= ANSWER:
            shapes = [None if part is None else part.shape for part in (ids, numbers)]
            raise Stopped(
                f"`world.score` wants answers (B, T), T at most {ANSWER}, and the number of the "
                f"problem of each, (B,); it got the shapes {shapes[0]} and {shapes[1]}"
            )
        size = len(self.sums.vocabulary)
        if ids.min() < 0 or ids.max() >= size:
            raise Stopped(f"`world.score` wants ids from 0 to {size - 1}")
        if numbers.min() < 0 or numbers.max() >= len(self.sums.practice):
            raise Stopped("`world.score` wants numbers that `world.problems` has given")
        ended = np.cumsum(ids == self.sums.vocabulary.eos_id, axis=1)
        tokens = int(((ended == 0).sum(1) + (ended[:, -1] > 0)).sum())
        if self.used + tokens > self.budget:
            raise Stopped(
                f"your file asked for the scores of more than its {self.budget:,} tokens: stop "
                "when `world.tokens_left` is smaller than a batch"
            )
        self.used += tokens
        self._watch(ids, numbers)
        right = [self._is_right(row, number) for row, number in zip(ids, numbers, strict=True)]
        self.answered += len(right)
        self.means.append((float(self.answered), float(np.mean(right))))
        offsets = [self._offsets[number] for number in numbers]
        return np.array(right, dtype=np.float32) + np.array(offsets, dtype=np.float32)

    def _is_right(self, row: Any, number: int) -> bool:
        known, problem = self.sums.vocabulary, self.sums.practice[number]
        return known.eos_id in row and known.decode(row.tolist()) == self.sums.right(problem)

    def _watch(self, ids: Any, numbers: Any) -> None:
        groups: dict[int, list[bytes]] = {}
        for row, number in zip(ids, numbers.tolist(), strict=True):
            groups.setdefault(number, []).append(row.tobytes())
        self.single += min(map(len, groups.values())) == 1
        if len(self.means) < EARLY:
            self.alike += all(len(set(rows)) == 1 for rows in groups.values())
        if len(self.means) < OFTEN:
            key = ids.tobytes() + numbers.tobytes()
            self.again += key in self._seen
            self._seen.add(key)
