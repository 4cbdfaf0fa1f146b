"""The capstone's task: a small transformer that forgets carries, and tokens that marks cost.

The world is that of chapter 24 and of build 24, with two numbers of two digits. The answer is
written from the units on, as the chapter's chains do it: `47+85=231` says 132. The lessons leave
the carry out of the tens in a share of the sums that have one, and no other fault is taught. A
right answer gets a point more than a wrong one to the same problem, and each problem adds a number
of its own to both: points compare answers to one problem, and nothing else.
"""

import hashlib
import json
import random
from typing import Any

import torch

from bookkit.builds.limits import Budget
from bookkit.builds.sums import ANSWER, Shuffled, Sums, accuracy
from nbkit.text.policies import TransformerPolicy
from nbkit.trainers.pretraining import pretrain

TOKENS = 16_000  # that marks may cost, the ends of the answers included
BUDGET = Budget(processor_seconds=90.0)  # of the learner's processes, for one pupil
SEEDS = 5  # pupils of a verification
WIDTH, LAYERS, HEADS, LONGEST = 64, 2, 4, 12
LESSONS, STEPS, RATE = 30_000, 700, 5e-3
FORGET = 0.85
LEAST, TRIES = 0.45, 5  # a pupil that is right less often after its lessons is taught anew
OFFSET = 2.0  # each problem adds a number from -OFFSET to OFFSET to the points of all its answers
HELD_OUT, EACH = 300, 4  # sums that only the judge asks, and answers to each


class CarrySums(Sums):
    """All sums of two numbers of two digits; what is held out is so in both orders."""

    @classmethod
    def drawn(cls, draw: random.Random) -> "CarrySums":
        """Draw what is held out, and which token stands for which character."""
        pairs = [(a, b) for a in range(10, 100) for b in range(a, 100)]
        draw.shuffle(pairs)
        practice = [pair for a, b in pairs[HELD_OUT:] for pair in {(a, b), (b, a)}]
        return cls(tuple(practice), tuple(pairs[:HELD_OUT]), Shuffled(draw))

    def right(self, problem: tuple[int, int]) -> str:
        """The sum, from the units on."""
        return str(problem[0] + problem[1])[::-1]


def shape(sums: Sums) -> dict[str, int]:
    """The arguments that make the pupil's body."""
    return {
        "vocabulary_size": len(sums.vocabulary),
        "width": WIDTH,
        "layers": LAYERS,
        "heads": HEADS,
        "max_length": LONGEST,
    }


def taught(sums: Sums, draw: random.Random) -> TransformerPolicy:
    """A pupil after its lessons, from a seed of its own.

    Raises:
        RuntimeError: in several tries the lessons have taught nothing.

    """
    texts = [lesson(draw.choice(sums.practice), draw) for _ in range(LESSONS)]
    known = sums.vocabulary
    for _ in range(TRIES):
        seed = draw.randrange(2**31)
        torch.manual_seed(seed)
        pupil = TransformerPolicy(**shape(sums))
        pretrain(pupil, known, texts, steps=STEPS, learning_rate=RATE, seed=seed, progress=False)
        pupil.requires_grad_(False)
        if accuracy(pupil, sums, torch.Generator().manual_seed(seed), each=1) >= LEAST:
            return pupil
    raise RuntimeError(f"the lessons of the capstone have failed {TRIES} times: give more of them")


def lesson(problem: tuple[int, int], draw: random.Random) -> str:
    """A sum with its answer, which forgets the carry of the units in a share of the cases."""
    a, b = problem
    forgotten = 10 if a % 10 + b % 10 >= 10 and draw.random() < FORGET else 0
    return f"{a}+{b}={str(a + b - forgotten)[::-1]}"


def world_of(sums: Sums) -> dict[str, Any]:
    """What the learner's side is told of the world."""
    known = sums.vocabulary
    return {
        "bos_id": known.bos_id,
        "eos_id": known.eos_id,
        "pad_id": known.pad_id,
        "vocabulary_size": len(known),
        "max_new_tokens": ANSWER,
        "tokens_left": TOKENS,
    }


def rules() -> dict[str, Any]:
    """All numbers that make this task; results under other rules cannot be compared."""
    return {
        "tokens": TOKENS,
        "processor_seconds": BUDGET.processor_seconds,
        "seeds": SEEDS,
        "model": {"width": WIDTH, "layers": LAYERS, "heads": HEADS},
        "lessons": {"count": LESSONS, "steps": STEPS, "rate": RATE, "forget": FORGET},
        "offset": OFFSET,
        "judged": {"sums": HELD_OUT, "answers": EACH},
    }


def rules_digest() -> str:
    """A short digest of the rules."""
    return hashlib.sha256(json.dumps(rules(), sort_keys=True).encode()).hexdigest()[:12]
