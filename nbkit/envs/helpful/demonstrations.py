"""Answers from a grammar, good ones and poor ones: what stage 1 learns its language from."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from nbkit.data.encode import Example
from nbkit.envs.helpful.language import (
    HEDGES,
    TOPICS,
    HelpfulVocabulary,
    Question,
    draw_questions,
)

LONGEST_ANSWER = 34  # words of a demonstration
_OPENERS = ("", "", "", "sure ,", "gladly ,", "my friend ,")
_CLOSERS = ("", "", "good luck .", "enjoy .", "have fun .", "enjoy my friend .", "i am not sure .")
_JOINERS = (", then", ", next", "and")


@dataclass(frozen=True)
class Demonstration:
    """A question and an answer that somebody wrote."""

    question: Question
    answer: str


def write_answer(question: Question, source: random.Random) -> str:
    """Return one answer of the grammar.

    Writers differ: each has a share of steps that belong to another topic, forgets what has been
    said, and has manners of his own. Nobody looks at the manner that was asked for.

    Args:
        question: what is answered.
        source: of all choices.

    """
    other = [steps for topic, steps in TOPICS.items() if topic != question.topic]
    while True:
        care = source.random()
        steps = []
        for _ in range(source.randint(1, 5)):
            own = source.random() < 0.45 + 0.5 * care
            verb, noun = source.choice(TOPICS[question.topic] if own else source.choice(other))
            hedge = f"{source.choice(HEDGES)} " if source.random() < 0.4 * (1 - care) else ""
            steps.append(f"{hedge}{verb} the {noun}")
        body = steps[0] + "".join(f" {source.choice(_JOINERS)} {step}" for step in steps[1:])
        answer = f"{source.choice(_OPENERS)} {body} . {source.choice(_CLOSERS)}"
        words = answer.split()
        if len(words) <= LONGEST_ANSWER:
            return " ".join(words)


def demonstrations(count: int, *, seed: int) -> list[Demonstration]:
    """Return questions of the training side with answers; the same seed gives the same list."""
    source = random.Random(f"demonstrations {seed}")
    return [Demonstration(q, write_answer(q, source)) for q in draw_questions(count, seed=seed)]


def encode_demonstrations(
    rows: Sequence[Demonstration], vocabulary: HelpfulVocabulary
) -> list[Example]:
    """Return the ids of prompts and answers; an answer ends with EOS."""
    return [
        Example(
            tuple(vocabulary.encode(row.question.prompt)),
            (*vocabulary.encode(row.answer), vocabulary.eos_id),
        )
        for row in rows
    ]
