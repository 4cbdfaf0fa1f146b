"""Preference pairs: two answers to one question, and which of them the judge preferred."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nbkit._inputs import check_number
from nbkit.data.encode import EncodedPair
from nbkit.data.preferences import Message, Preference
from nbkit.envs.helpful.demonstrations import write_answer
from nbkit.envs.helpful.gold import gold
from nbkit.envs.helpful.language import HelpfulVocabulary, Question, draw_questions
from nbkit.generate import answer
from nbkit.text.protocols import LanguageModel

Sampler = Callable[[Sequence[Question], int], list[str]]


@dataclass(frozen=True)
class Pair:
    """Two answers; ``chosen`` won the judge's noisy comparison.

    Attributes:
        question: what was asked.
        chosen: the answer that won.
        rejected: the other one.
        gold_chosen: the judge's score of the first, hidden from learners.
        gold_rejected: of the second.

    """

    question: Question
    chosen: str
    rejected: str
    gold_chosen: float
    gold_rejected: float

    def preference(self, row: int = 0) -> Preference:
        """The same as the loaders of ``nbkit.data`` return it."""
        return Preference((Message("user", self.question.text),), self.chosen, self.rejected, row)


def preference_probability(first: float, second: float, *, beta: float = 1.0) -> float:
    """Probability that the first wins: sigmoid(beta (first - second)) (Bradley and Terry, 1952)."""
    return 0.5 * (1 + math.tanh(beta * (first - second) / 2))


def grammar_sampler(questions: Sequence[Question], seed: int) -> list[str]:
    """Answers straight from the grammar."""
    source = random.Random(f"answers {seed}")
    return [write_answer(question, source) for question in questions]


def policy_sampler(
    model: LanguageModel,
    vocabulary: HelpfulVocabulary,
    *,
    max_new_tokens: int = 40,
    temperature: float = 1.0,
    rounds: int = 5,
) -> Sampler:
    """Answers from a policy; one that meets the length limit is drawn again.

    Args:
        model: as for ``nbkit.generate``.
        vocabulary: of the world.
        max_new_tokens: the limit, EOS included.
        temperature: of the sampling.
        rounds: attempts before a policy that does not end is given up.

    Raises:
        RuntimeError: (by the sampler) answers that never end.

    """

    def sample(questions: Sequence[Question], seed: int) -> list[str]:
        answers = [""] * len(questions)
        open_rows = list(range(len(questions)))
        for attempt in range(rounds):
            made = answer(
                model, vocabulary, [questions[i] for i in open_rows],
                max_new_tokens=max_new_tokens, temperature=temperature,
                seeds=seed * rounds + attempt,
            )  # fmt: skip
            cut = made.truncated.tolist()
            for i, ids in zip(open_rows, made.lists(), strict=True):
                answers[i] = vocabulary.decode(ids)
            open_rows = [i for i, ended_late in zip(open_rows, cut, strict=True) if ended_late]
            if not open_rows:
                return answers
        raise RuntimeError(
            f"{len(open_rows)} of {len(questions)} answers met the limit of {max_new_tokens} "
            f"tokens {rounds} times; teach the policy to end, or raise max_new_tokens"
        )

    return sample


def preference_pairs(
    count: int, *, seed: int, sampler: Sampler | None = None, beta: float = 4.0
) -> list[Pair]:
    """Return ``count`` pairs of different answers to questions of the training side.

    Args:
        count: how many.
        seed: of questions, answers and labels.
        sampler: who answers: called with questions and a seed; None: the grammar.
        beta: how decided the judge is; labels are drawn with ``preference_probability``.

    Raises:
        ValueError: a count below 1; a sampler that gives the same answer twice all the time.

    """
    check_number("count", count, 1)
    sampler = grammar_sampler if sampler is None else sampler
    labels = random.Random(f"labels {seed}")
    pairs: list[Pair] = []
    for attempt in range(20):
        missing = count - len(pairs)
        if not missing:
            break
        questions = draw_questions(missing, seed=seed * 20 + attempt)
        answers = sampler([*questions, *questions], seed * 20 + attempt)
        for i, question in enumerate(questions):
            pair = _labelled(question, answers[i], answers[missing + i], labels, beta)
            if pair is not None:
                pairs.append(pair)
    if len(pairs) < count:
        raise ValueError(f"sampler: only {len(pairs)} of {count} questions got different answers")
    return pairs


def _labelled(
    question: Question, first: str, second: str, labels: random.Random, beta: float
) -> Pair | None:
    if first == second:
        return None
    scores = gold(question, first), gold(question, second)
    if labels.random() < preference_probability(*scores, beta=beta):
        return Pair(question, first, second, *scores)
    return Pair(question, second, first, scores[1], scores[0])


def encode_pairs(pairs: Sequence[Pair], vocabulary: HelpfulVocabulary) -> list[EncodedPair]:
    """Return the ids of prompts and both answers; answers end with EOS."""
    end = vocabulary.eos_id
    return [
        EncodedPair(
            tuple(vocabulary.encode(pair.question.prompt)),
            (*vocabulary.encode(pair.chosen), end),
            (*vocabulary.encode(pair.rejected), end),
            row=row,
        )
        for row, pair in enumerate(pairs)
    ]
