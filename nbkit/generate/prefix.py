"""What sharing the prompt's prefill among the answers of a group saves, in tokens and in bytes."""

from collections.abc import Sequence


def prefill_cost(prompt_lengths: Sequence[int], group_size: int, *, shared: bool = True) -> int:
    """Prompt tokens that pass through the model before the first token is drawn.

    The last token of a prompt is the input of the first decode step, so it is not counted.

    Args:
        prompt_lengths: tokens of each prompt, at least 1.
        group_size: answers G to each prompt.
        shared: read each prompt once; else once an answer.

    Raises:
        ValueError: an empty prompt or no answer.

    """
    if group_size < 1:
        raise ValueError(f"group_size must be at least 1; got {group_size}")
    if any(length < 1 for length in prompt_lengths):
        raise ValueError("prompt_lengths: every prompt needs at least one token")
    once = sum(length - 1 for length in prompt_lengths)
    return once if shared else once * group_size
