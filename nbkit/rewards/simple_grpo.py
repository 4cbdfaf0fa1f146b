"""The two rewards of SimpleGRPO, as they are meant: 1.25 or -1 for the form, 1 or -1 for the rest.

The published pair (github.com/lsdefine/simple_GRPO) grades the last number of the text, without its
sign and its thousands separators. Chapter 23 makes a bug hunt of it; this is the answer.
"""

from nbkit.rewards.answers import extract_answer, math_score
from nbkit.rewards.compose import Composed
from nbkit.rewards.formats import format_reward

FORM, MISS, RIGHT = 1.25, -1.0, 1.0
_ANSWER_TAGS = ("<answer>", "</answer>")


def form_reward(completion: str) -> float:
    """Return 1.25 for thoughts and then an answer, each once and nothing else, otherwise -1."""
    return FORM if format_reward(completion) else MISS


def correctness_reward(completion: str, gold: str) -> float:
    """Return 1 if the one answer between the tags is the gold's number, otherwise -1.

    It must be written as a number: a sum that equals it is the question once more.

    Args:
        completion: what the model wrote.
        gold: a bare number, or an answer of GSM8K with its ``####``.

    Raises:
        ValueError: a gold without a number.
        nbkit.rewards.symbolic.VerifierError: the verifier failed, which says nothing of the answer.

    """
    once = all(completion.count(tag) == 1 for tag in _ANSWER_TAGS)
    if not once or extract_answer(completion, style="tags") is None:
        return MISS
    return RIGHT if math_score(completion, gold, style="tags", accept="number") else MISS


def reward(completion: str, gold: str) -> Composed:
    """Return the sum of both, with "correct" and "format" (0 or 1 each) on record."""
    form, right = form_reward(completion), correctness_reward(completion, gold)
    return Composed(form + right, {"correct": float(right > 0), "format": float(form > 0)})
