"""Sums of two to six numbers, worked out step by step, with an answer that a program can check.

A problem is ``12+34+56=``, and a completion in the wanted form is::

    <think>0+2=02+4=06+6=12;1+1=02+3=05+5=10</think><answer>102</answer>

The first chain adds up the units, two digits a sum. After the semicolon stands the carry, and from
there the second chain adds up the tens. The answer is the last tens, then the last digit of the
units. So thoughts are long where there is much to add.

Everything is made here from a seed. The corpus that teaches the form has a **planted** fault: a
given share of its texts forgets the carry, that is, writes a 0 in its place and goes on faithfully
(``;0+1=01+3=04+5=09``, answer 92). A model that learns the corpus well is right about as often as
the corpus, and the rest is left to reinforcement learning.

A share of the texts may take a **second look**: ``=`` and the tens once more, with the right
carry, before they answer. Completions of one problem then differ in length, and to look twice is a
second way to a higher reward.
"""

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from nbkit._inputs import check_number
from nbkit.rewards.formats import TAGS, format_reward, thoughts_and_answer
from nbkit.text.piece_vocabulary import PieceVocabulary, longest_first

LOWEST, HIGHEST = 10, 99
# A step "+4=" is one token: the digit is fetched in one place, the sum is made in the next.
_STEPS = tuple(f"+{digit}=" for digit in range(10))
_TOKENS = ("<pad>", "<eos>", *TAGS, *"0123456789", "+", "=", ";", *_STEPS)
PIECE = longest_first(_TOKENS)


class ArithmeticVocabulary(PieceVocabulary):
    """29 tokens: PAD 0, EOS 1 (BOS too), the tags, ten digits, ``+ = ;``, ten steps ``+4=``."""

    tokens = _TOKENS
    pattern = PIECE


@dataclass(frozen=True)
class Sum:
    """A problem: the numbers to add, each from 10 to 99."""

    terms: tuple[int, ...]

    @property
    def prompt(self) -> str:
        """What the model reads."""
        return "+".join(map(str, self.terms)) + "="

    @property
    def answer(self) -> int:
        """The right sum."""
        return sum(self.terms)


def solution(problem: Sum, *, forget_carry: bool = False, second_look: bool = False) -> str:
    """Return the completion that a careful (or a forgetful) pupil writes.

    Args:
        problem: what is asked.
        forget_carry: 0 in the place of the carry, the first time that the tens are added.
        second_look: the tens are added a second time, with the right carry.

    """
    tens = [term // 10 for term in problem.terms]
    units, last = _chain(0, [term % 10 for term in problem.terms])
    chain, result = _chain(0 if forget_carry else last // 10, tens)
    thoughts = f"{units};{chain}"
    if second_look:
        chain, result = _chain(last // 10, tens)
        thoughts += f"={chain}"
    return f"<think>{thoughts}</think><answer>{10 * result + last % 10}</answer>"


def _chain(start: int, digits: Sequence[int]) -> tuple[str, int]:
    """A chain of additions from one digit on, and the last sum."""
    text, total = str(start), start
    for digit in digits:
        total += digit
        text += f"+{digit}={total:02d}"
    return text, total


def guess(problem: Sum, digit: int) -> str:
    """Return the completion of a pupil who skips the work: an estimate in the right form."""
    near = 10 * sum(term // 10 for term in problem.terms) + 5 * (len(problem.terms) - 1) + digit
    return f"<think>0</think><answer>{near}</answer>"


def longest_completion(terms: int, *, second_look: bool = False) -> int:
    """Tokens of the longest right completion of a sum of so many terms, EOS included."""
    chains = 3 if second_look else 2
    return chains * (3 * terms + 1) + (chains - 1) + len(TAGS) + 3 + 1


def draw_sums(
    count: int,
    *,
    seed: int,
    held_out: bool = False,
    terms: tuple[int, int] = (2, 6),
    distinct: bool = True,
) -> list[Sum]:
    """Draw problems; the numbers of terms are equally likely.

    Each problem belongs to one side for ever: one in ten is held out, by a checksum of its sorted
    terms. So no seed can mix the sides, and 12+34 is on the side of 34+12.

    Args:
        count: how many.
        seed: of the draw.
        held_out: from the held-out tenth, else from the rest.
        terms: fewest and most terms.
        distinct: no problem twice.

    Raises:
        ValueError: a count below 1, or terms outside 2 to 6.

    """
    check_number("count", count, 1)
    low, high = terms
    if not 2 <= low <= high <= 6:
        raise ValueError(f"terms must be two numbers from 2 to 6, the smaller first; got {terms}")
    if distinct and low == high == 2 and count > 700 + 6500 * (not held_out):
        raise ValueError(f"count: there are no {count} distinct sums of two terms on this side")
    source = random.Random(seed)
    problems: list[Sum] = []
    seen: set[Sum] = set()
    while len(problems) < count:
        size = source.randint(low, high)
        problem = Sum(tuple(source.randint(LOWEST, HIGHEST) for _ in range(size)))
        if is_held_out(problem) != held_out or (distinct and problem in seen):
            continue
        seen.add(problem)
        problems.append(problem)
    return problems


def is_held_out(problem: Sum) -> bool:
    """Whether a problem belongs to the held-out tenth."""
    return zlib.crc32(repr(sorted(problem.terms)).encode()) % 10 == 0


def corpus(
    count: int,
    *,
    seed: int,
    forget: float = 0.75,
    second_look: float = 0.0,
    skip: float = 0.0,
    terms: tuple[int, int] = (2, 6),
) -> list[tuple[Sum, str]]:
    """Problems of the training side with completions, of which a share forgets the carry.

    Args:
        count: how many.
        seed: of problems and faults.
        forget: the planted share, 0 to 1. Where the carry is 0 it does no harm.
        second_look: the share that adds the tens twice, drawn independently.
        skip: the share that writes no chain and answers with an estimate (``guess``).
        terms: fewest and most terms.

    """
    check_number("forget", forget, 0.0, 1.0)
    check_number("second_look", second_look, 0.0, 1.0)
    check_number("skip", skip, 0.0, 1.0)
    source = random.Random(f"faults {seed}")
    examples = []
    for problem in draw_sums(count, seed=seed, terms=terms, distinct=False):
        fault, again = source.random() < forget, source.random() < second_look
        text = solution(problem, forget_carry=fault, second_look=again)
        if source.random() < skip:
            text = guess(problem, source.randrange(10))
        examples.append((problem, text))
    return examples


def correct(problem: Sum, completion: str) -> float:
    """Return 1.0 if the completion keeps to the form and its answer is the sum, else 0.0.

    The answer must be written in digits without a leading zero.
    """
    parts = thoughts_and_answer(completion)
    return float(parts is not None and parts[1] == str(problem.answer))


def well_formed(problem: Sum, completion: str) -> float:
    """Return 1.0 for the form ``<think>...</think><answer>...</answer>``, whatever it says."""
    del problem
    return format_reward(completion)
