"""Rewards between 0 and 1 for answers that are near: more signal, and more ways to be fooled."""

import re
from collections import Counter
from fractions import Fraction

from nbkit.rewards.answers import extract_answer
from nbkit.text.numerals import read_number


def closeness(completion: str, gold: str, *, style: str = "gsm8k", half: float = 0.1) -> float:
    """Return 1 for the right number, 1/2 at a relative error of ``half``, towards 0 far away.

    The reward is ``1 / (1 + |answer - gold| / (half * max(|gold|, 1)))``; 0 without a number.

    Args:
        completion: what the model wrote.
        gold: a number.
        style: where the answer stands; see ``extract_answer``.
        half: relative error at which half of the reward is left.

    Raises:
        ValueError: gold is no number, or ``half`` is not positive.

    """
    wanted = read_number(gold)
    if wanted is None:
        raise ValueError(f"gold must be a number; got {gold!r}")
    if not half > 0:
        raise ValueError(f"half must be positive; got {half}")
    answer = extract_answer(completion, style=style)
    value = None if answer is None else read_number(answer)
    if value is None:
        return 0.0
    relative = float(abs(value - wanted) / max(abs(wanted), Fraction(1)))
    return 1 / (1 + relative / half)


def word_overlap(completion: str, gold: str) -> float:
    """Return the F1 of the words of both texts, repeated words counted as often as they occur.

    The measure of SQuAD (Rajpurkar et al., 2016) without its removal of articles. 1.0 for two texts
    without a word, 0.0 if one has none.
    """
    ours, theirs = (Counter(re.findall(r"\w+", text.lower())) for text in (completion, gold))
    if not ours or not theirs:
        return float(ours == theirs)
    common = sum((ours & theirs).values())
    return 2 * common / (sum(ours.values()) + sum(theirs.values()))
