"""An assistant that answers questions, and comparisons of its answers: the world of build 21.

The language and the hidden judge are those of `nbkit.envs.helpful`, chapter 21's. What a learner
could store is drawn anew: which number stands for which word, which questions are hidden, the
lessons, the first weights.
"""

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from bookkit.builds.wire import Arrays
from nbkit.envs.helpful import (
    HelpfulVocabulary,
    Question,
    all_questions,
    gold,
    preference_probability,
)
from nbkit.envs.helpful.demonstrations import write_answer
from nbkit.envs.helpful.language import SPECIAL
from nbkit.logprobs import token_logprobs
from nbkit.masks import masked_mean
from nbkit.text.policies import LSTMPolicy

WIDTH, LESSONS, STEPS, BATCH = 96, 4000, 300, 64
ANSWER = 36  # tokens of an answer at most, the end included
HIDDEN = 12  # of the 48 questions
CALM = 2.0  # logits of the lessons are multiplied by it: to sharpen further gains little
DECIDED = 4.0  # labels are drawn with sigmoid(DECIDED * difference of gold)


class Shuffled(HelpfulVocabulary):
    """The words under numbers of this run, the three special ones among them."""

    def __init__(self, draw: random.Random) -> None:
        tokens = list(HelpfulVocabulary.tokens)
        draw.shuffle(tokens)
        self.tokens = tuple(tokens)
        super().__init__()
        self.pad_id, self.bos_id, self.eos_id = (self._ids[name] for name in SPECIAL[:3])


@dataclass(frozen=True)
class Helpful:
    """Questions of one run.

    Attributes:
        words: which number stands for which word.
        asked: questions of the lessons, the comparisons and the training.
        hidden: what only the judge asks.
        width: tokens of a prompt, its padding on the left included.

    """

    words: Shuffled
    asked: tuple[Question, ...]
    hidden: tuple[Question, ...]
    width: int

    @classmethod
    def drawn(cls, draw: random.Random) -> "Helpful":
        """Split the questions, and number the words."""
        every = all_questions()
        draw.shuffle(every)
        words = Shuffled(draw)
        width = max(len(words.encode(question.prompt)) for question in every)
        return cls(words, tuple(every[HIDDEN:]), tuple(every[:HIDDEN]), width)

    def prompt(self, question: Question) -> list[int]:
        """The ids of a question, padded on the left to the width of all."""
        told = self.words.encode(question.prompt)
        return [self.words.pad_id] * (self.width - len(told)) + told

    def prompts(self, questions: Sequence[Question]) -> Tensor:
        """The same of several, (B, P)."""
        return torch.tensor([self.prompt(question) for question in questions])

    def golds(self, questions: Sequence[Question], answers: Tensor) -> list[float]:
        """The hidden judgement of answers (B, T) without their prompts."""
        rows = answers.tolist()
        return [
            gold(question, self.words.decode(row), truncated=self.words.eos_id not in row)
            for question, row in zip(questions, rows, strict=True)
        ]


def taught(world: Helpful, draw: random.Random) -> LSTMPolicy:
    """An assistant after its lessons, stage 1 of chapter 21, from a seed of its own."""
    seed = draw.randrange(2**31)
    source, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    rows = []
    for _ in range(LESSONS):
        question = source.choice(world.asked)
        told = [*world.words.encode(write_answer(question, source)), world.words.eos_id]
        rows.append(world.prompt(question) + told)
    ids, mask = padded(rows, world.words.pad_id)
    mask[:, : world.width] = False
    policy = LSTMPolicy(len(world.words), width=WIDTH)
    optimiser = torch.optim.Adam(policy.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, STEPS)
    for _ in range(STEPS):
        part = torch.randint(len(ids), (BATCH,), generator=generator)
        longest = int((mask[part].cumsum(1).argmax(1) + 1).max())
        batch, counted = ids[part, :longest], mask[part, 1:longest]
        logp = token_logprobs(policy(batch[:, :-1]), batch[:, 1:])
        optimiser.zero_grad()
        (-masked_mean(logp, counted)).backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return multiplied(policy.requires_grad_(False), CALM)


def padded(rows: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Rows as ids, padded on the right, and a mask of what is there; both (B, L)."""
    lengths = torch.tensor([len(row) for row in rows])
    width = int(lengths.max())
    ids = torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows])
    return ids, torch.arange(width) < lengths[:, None]


@dataclass(frozen=True)
class Answers:
    """What an assistant says, with how far it is from another.

    Attributes:
        ids: (B, T), without the prompts; pads behind the end.
        kl: exact KL of each next token, summed over an answer, nats, (B,).

    """

    ids: Tensor
    kl: Tensor


@torch.no_grad()
def answers(
    policy: LSTMPolicy,
    base: LSTMPolicy,
    prompts: Tensor,
    ends: tuple[int, int],
    generator: torch.Generator,
) -> Answers:
    """Sample one answer to each prompt.

    The mean of `kl` estimates KL(policy ‖ base) of answers without bias: at each place that the
    policy reaches, the KL of the next token is summed over all tokens.

    Args:
        policy: samples.
        base: what it is compared with.
        prompts: (B, P).
        ends: ids of the EOS and of the pad.
        generator: of the samples.

    """
    eos_id, pad_id = ends
    first, mine = _read(policy, prompts)
    second, theirs = _read(base, prompts)
    kl, running = torch.zeros(len(prompts)), torch.ones(len(prompts), dtype=torch.bool)
    columns = []
    for _ in range(ANSWER):
        logp, logq = first.log_softmax(-1), second.log_softmax(-1)
        kl += torch.where(running, (logp.exp() * (logp - logq)).sum(-1), 0.0)
        tokens = torch.multinomial(logp.exp(), 1, generator=generator)[:, 0]
        columns.append(torch.where(running, tokens, pad_id))
        running = running & (tokens != eos_id)
        if not running.any():
            break
        first, mine = policy.step(columns[-1], mine)
        second, theirs = base.step(columns[-1], theirs)
    return Answers(torch.stack(columns, 1), kl)


def _read(policy: LSTMPolicy, prompts: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The logits behind the prompts, and the state."""
    hidden, state = policy.lstm(policy.embedding(prompts))
    return policy.head(hidden[:, -1]), state


@dataclass(frozen=True)
class Comparisons:
    """Pairs of answers to one question each.

    Attributes:
        chosen: ids of prompts with the answers that won, (N, P+T).
        rejected: of the others, (N, P+T).
        agreed: whether the hidden judgement says the same as the label, (N,).

    """

    chosen: Tensor
    rejected: Tensor
    agreed: Tensor

    def arrays(self) -> Arrays:
        """What is handed out."""
        return {"chosen": self.chosen.numpy(), "rejected": self.rejected.numpy()}


def compared(
    world: Helpful,
    policy: LSTMPolicy,
    questions: Sequence[Question],
    count: int,
    draw: random.Random,
) -> Comparisons:
    """Let the assistant answer twice, and label which answer wins; pairs of equals are left out.

    Raises:
        ValueError: the assistant says too often the same.

    """
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    asked = [draw.choice(questions) for _ in range(count + count // 3)]
    prompts = world.prompts(asked)
    ends = world.words.eos_id, world.words.pad_id
    both = [answers(policy, policy, prompts, ends, generator).ids for _ in range(2)]
    width = max(part.shape[1] for part in both)
    first, second = (
        nn.functional.pad(part, (0, width - part.shape[1]), value=ends[1]) for part in both
    )
    scores = torch.tensor([world.golds(asked, part) for part in (first, second)])
    kept = (scores[0] != scores[1]).nonzero()[:count, 0]
    if len(kept) < count:
        raise ValueError(f"only {len(kept)} of {count} pairs hold answers of different worth")
    first, second = (torch.cat([prompts, part], 1)[kept] for part in (first, second))
    pairs = scores[:, kept].T.tolist()
    wins = torch.tensor(
        [draw.random() < preference_probability(a, b, beta=DECIDED) for a, b in pairs]
    )
    chosen = torch.where(wins[:, None], first, second)
    rejected = torch.where(wins[:, None], second, first)
    better = torch.tensor([a > b for a, b in pairs])
    return Comparisons(chosen, rejected, wins == better)


@torch.no_grad()
def multiplied(policy: LSTMPolicy, factor: float) -> LSTMPolicy:
    """The policy at a temperature of 1 / factor."""
    sharp = copy.deepcopy(policy)
    for weights in (sharp.head.weight, sharp.head.bias):
        weights.mul_(factor)
    return sharp


def rows_of(scores: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error."""
    found = np.asarray(scores)
    return float(found.mean()), float(found.std(ddof=1) / len(found) ** 0.5)
