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

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit

PAD, BOS, EOS, WORDS, LONGEST = 0, 1, 2, 5, 12


Ids = list[int]


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


CHECK = Check(
    id="dpo.repair.1",
    outputs=(Output("loss", "()"), Output("rewards", "(2, B)")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "the prompt is scored",
            "mask[i, len(prompt) : end]",
            "mask[i, :end]",
            "the tokens of the prompt are scored as well. They cancel in the margin, so "
            "the loss is right and both rewards are not: score the answer alone",
        ),
        edit(
            "the first token is lost",
            "mask[i, len(prompt) : end]",
            "mask[i, len(prompt) + 1 : end]",
            "the first token of the answer is not scored: the mask begins where the "
            "answer begins, and is shifted together with the ids",
        ),
        edit(
            "not shifted",
            "    policy.eval()\n",
            "    policy.eval()\n"
            "\n"
            "    def answer_logprob(logits, ids, mask):\n"
            "        logp = torch.log_softmax(logits, dim=-1).gather(2, ids[:, :, "
            "None]).squeeze(2)\n"
            "        return torch.where(mask, logp, 0.0).sum(dim=1)\n"
            "\n",
            "each token is scored by the logits at its own place: logits[:, t] predicts "
            "ids[:, t+1]",
        ),
        edit(
            "no EOS",
            "[*answer, EOS]",
            "[*answer]",
            "the answers have no EOS, so that nothing is learned about where to stop: "
            "append it, and score it",
        ),
        edit(
            "two BOS",
            "begun = pair.prompt if pair.prompt[:1] == [BOS] else [BOS, *pair.prompt]",
            "begun = [BOS, *pair.prompt]",
            "a BOS is put in front of prompts that have one already: the chat template "
            "writes one, and so does the tokenizer. Add it only where it is missing",
        ),
        edit(
            "no BOS",
            "begun = pair.prompt if pair.prompt[:1] == [BOS] else [BOS, *pair.prompt]",
            "begun = list(pair.prompt)",
            "a prompt without BOS stays without: the model has never seen a text begin like that",
        ),
        edit(
            "dropout on the policy",
            "policy.eval()",
            "policy.train()",
            "the policy is in training mode: with dropout on, policy and reference differ "
            "before anything was learned. Call `eval()` on it",
        ),
        edit(
            "dropout on the reference",
            "reference.eval()",
            "reference.train()",
            "the reference is in training mode, so its numbers are noise: call `eval()` on it",
        ),
        edit(
            "the reference learns",
            "torch.no_grad()",
            "torch.enable_grad()",
            "the values are right, but a gradient reaches the reference: it would be "
            "pushed the other way, which also lowers the loss. Score it under "
            "`torch.no_grad()`",
        ),
        edit(
            "the policy is its own reference",
            "reference(ids)",
            "policy(ids)",
            "the policy is compared with itself: every reward is 0, the loss is log 2 for ever",
        ),
        edit(
            "no reference",
            "mask) - fixed)",
            "mask) - 0.0 * fixed)",
            "the reference is left out: a reward is beta times the log-ratio of policy "
            "and reference",
        ),
        edit(
            "pair exchanged",
            "([pair.chosen for pair in pairs], [pair.rejected for pair in pairs])",
            "([pair.rejected for pair in pairs], [pair.chosen for pair in pairs])",
            "chosen and rejected are exchanged: the policy learns the opposite, at a "
            "perfect accuracy",
        ),
        edit(
            "beta not used",
            "beta * (answer",
            "(answer",
            "`beta` has no effect on the rewards: they are beta times the log-ratios",
        ),
        edit(
            "mean over the tokens",
            "rewards.append(beta * (answer_logprob(policy(ids), ids, mask) - fixed))",
            "drift = answer_logprob(policy(ids), ids, mask) - fixed\n"
            "        rewards.append(beta * drift / mask.sum(1).clamp(min=1))",
            "an answer's score is the mean over its tokens; the log-probability of an "
            "answer is the sum",
        ),
        edit(
            "sum over the pairs",
            "rewards[1]).mean()",
            "rewards[1]).sum()",
            "the loss is the sum over the pairs: take the mean, or the step grows with the batch",
        ),
        edit(
            "padding on the left",
            "    return ids, mask\n",
            "    for i in range(len(rows)):\n"
            "        gap = width - len(rows[i][0] + rows[i][1])\n"
            "        ids[i], mask[i] = ids[i].roll(gap), mask[i].roll(gap)\n"
            "    return ids, mask\n",
            "rows are padded on the left, which moves every token to a later position in "
            "the shorter rows: pad on the right, or pass position ids",
        ),
        edit(
            "padding is scored",
            "len(prompt) : end]",
            "len(prompt) :]",
            "the padding behind shorter answers is scored as well",
        ),
        edit(
            "the prompt length of the first row",
            "len(prompt) : end]",
            "len(rows[0][0]) : end]",
            "the mask begins at the same place in all rows; prompts differ in length",
        ),
    ),
    not_tested="the optimiser, results beyond ±10, and whether the pairs were "
    "labelled by somebody sensible.",
    gradient_to=("words",),
    no_gradient_to=("ref_words", "ref_places"),
    call=call,
    draws=12,
    special=(("beta", 0.0),),
)
