"""dpo.repair.1: a step of DPO that runs, never complains, and teaches the wrong thing.

The learner's function takes two models and a list of pairs. The check builds both models from
tables: the logits behind a token are those of the token plus those of its position, and in training
mode half of them are dropped. So the oracle can follow every number.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from bookkit.exercises.chapter_22.logprob import answer_logprob
from bookkit.exercises.chapter_22.repair_faults import FAULTS
from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Output

PAD, BOS, EOS, WORDS, LONGEST = 0, 1, 2, 5, 12
Model = Any
Ids = list[int]
Result = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Preferred:
    """One row of the data: a rendered prompt, and two answers without their EOS."""

    prompt: Ids
    chosen: Ids
    rejected: Ids


class TableModel:
    """Logits (B, T, V) from two tables; in training mode every second one is dropped.

    Attributes:
        training: as a module has it; true at first, as in a freshly built module.

    """

    def __init__(self, words: Tensor, places: Tensor) -> None:
        self.words, self.places, self.training = words, places, True

    def eval(self) -> "TableModel":
        """Switch dropout off."""
        self.training = False
        return self

    def train(self) -> "TableModel":
        """Switch dropout on."""
        self.training = True
        return self

    def __call__(self, ids: Tensor) -> Tensor:
        """Logits (B, T, V) of ids (B, T)."""
        logits = self.words[ids] + self.places[: ids.shape[1]]
        if self.training:
            kept = torch.arange(logits.shape[-1]) % 2 == 0
            logits = torch.where(kept, 2 * logits, 0.0)
        return logits


def build(pairs: list[Preferred], answers: list[Ids]) -> tuple[Tensor, Tensor]:
    """Ids (B, T) padded on the right, and the mask of the answers with their EOS."""
    rows = []
    for pair, answer in zip(pairs, answers, strict=True):
        begun = pair.prompt if pair.prompt[:1] == [BOS] else [BOS, *pair.prompt]
        rows.append((begun, [*answer, EOS]))
    width = max(len(prompt) + len(answer) for prompt, answer in rows)
    ids = torch.full((len(rows), width), PAD)
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for i, (prompt, answer) in enumerate(rows):
        end = len(prompt) + len(answer)
        ids[i, :end] = torch.tensor(prompt + answer)
        mask[i, len(prompt) : end] = True
    return ids, mask


def dpo_step(policy: Model, reference: Model, pairs: list[Preferred], beta: float) -> Result:
    """Mean loss of the pairs, and the implicit rewards: chosen in row 0, rejected in row 1."""
    policy.eval()
    reference.eval()
    rewards = []
    for answers in ([p.chosen for p in pairs], [p.rejected for p in pairs]):
        ids, mask = build(pairs, answers)
        with torch.no_grad():
            fixed = answer_logprob(reference(ids), ids, mask)
        rewards.append(beta * (answer_logprob(policy(ids), ids, mask) - fixed))
    return -logsigmoid(rewards[0] - rewards[1]).mean(), torch.stack(rewards)


def call(
    function: Callable[..., Any],
    words: Tensor,
    places: Tensor,
    ref_words: Tensor,
    ref_places: Tensor,
    pairs: list[tuple[Ids, Ids, Ids]],
    beta: float,
) -> Any:
    """Build models and pairs from the case and call the learner's function."""
    policy, reference = TableModel(words, places), TableModel(ref_words, ref_places)
    return function(policy, reference, [Preferred(*pair) for pair in pairs], beta)


Table = list[list[float]]


def _logp(words: Table, places: Table, prompt: Ids, answer: Ids) -> float:
    ids = prompt if prompt[0] == BOS else [BOS, *prompt]
    total = []
    for token in [*answer, EOS]:
        row = [a + b for a, b in zip(words[ids[-1]], places[len(ids) - 1], strict=True)]
        total.append(row[token] - math.log(math.fsum(math.exp(x) for x in row)))
        ids = [*ids, token]
    return math.fsum(total)


def oracle(
    words: Table,
    places: Table,
    ref_words: Table,
    ref_places: Table,
    pairs: list[tuple[Ids, Ids, Ids]],
    beta: float,
) -> tuple[float, Table]:
    """One token after the other, one answer after the other."""
    rewards: Table = [[], []]
    losses = []
    for prompt, *answers in pairs:
        for row, answer in zip(rewards, answers, strict=True):
            gain = _logp(words, places, prompt, answer) - _logp(
                ref_words, ref_places, prompt, answer
            )
            row.append(beta * gain)
        margin = rewards[0][-1] - rewards[1][-1]
        losses.append(math.log1p(math.exp(-margin)))
    return math.fsum(losses) / len(losses), rewards


def _case(name: str, draw: Draw, pairs: list[tuple[Ids, Ids, Ids]], beta: float) -> Case:
    inputs = {
        "words": draw.normal(WORDS, WORDS),
        "places": draw.normal(LONGEST, WORDS, scale=0.5),
        "ref_words": draw.normal(WORDS, WORDS),
        "ref_places": draw.normal(LONGEST, WORDS, scale=0.5),
        "pairs": pairs,
        "beta": beta,
    }
    return Case(name, inputs)


def _words(draw: Draw, low: int, high: int) -> Ids:
    return draw.integers(3, WORDS - 1, draw.integer(low, high)).tolist()


def cases(draw: Draw) -> Case:
    """Prompts with and without their BOS, answers of several lengths."""
    pairs = []
    for _ in range(draw.integer(1, 3)):
        prompt = ([BOS] if draw.integer(0, 1) else []) + _words(draw, 1, 3)
        pairs.append((prompt, _words(draw, 1, 4), _words(draw, 1, 4)))
    return _case(f"{len(pairs)} pairs", draw, pairs, draw.choice([0.1, 0.5, 1.0]))


def edges() -> tuple[Case, ...]:
    """Prompts in which one fault at a time shows."""
    draw = Draw(22)
    return (
        _case("one word against another", draw, [([BOS], [3], [4])], 0.5),
        _case("the prompt has its BOS", draw, [([BOS, 4, 3], [3], [4, 3])], 0.5),
        _case("the prompt has no BOS", draw, [([4, 3], [3, 3], [4])], 0.5),
        _case("the longer answer is chosen", draw, [([BOS, 4], [3, 3, 4, 4], [4])], 0.5),
        _case(
            "two pairs, prompts of two lengths",
            draw,
            [([BOS, 4], [3, 4], [4]), ([BOS, 3, 3, 4], [4], [3, 3, 4])],
            0.1,
        ),
        _case("an empty answer", draw, [([BOS, 4], [3], [])], 1.0),
    )


REPAIR = Exercise(
    id="dpo.repair.1",
    title="Repair a step that teaches the wrong thing",
    chapter=22,
    difficulty=4,
    minutes=45,
    goal=(
        "From two models and a list of pairs to the mean loss of DPO and the implicit rewards of "
        "all answers."
    ),
    outputs=(Output("loss", "()"), Output("rewards", "(2, B)")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=dpo_step,
    gradient_to=("words",),
    no_gradient_to=("ref_words", "ref_places"),
    call=call,
    mutants=FAULTS,
    draws=12,
    not_tested="the optimiser, and whether the pairs were labelled by somebody sensible.",
)
