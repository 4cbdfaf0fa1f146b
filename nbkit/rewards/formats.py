"""The reward for a form: ``<think>…</think><answer>…</answer>``, all of it or in parts."""

import re

TAGS = ("<think>", "</think>", "<answer>", "</answer>")
_FORM = re.compile(r"\s*<think>(.*?)</think>\s*<answer>(.*?)</answer>\s*", re.DOTALL)


def format_reward(completion: str) -> float:
    """Return 1.0 if the completion is thoughts and then an answer, each once, and nothing else.

    Neither part may be empty, and no tag may occur a second time: a text that writes several
    answers, of which the verifier would read one, has not kept to the form.
    """
    match = _FORM.fullmatch(completion)
    if match is None or any(completion.count(tag) != 1 for tag in TAGS):
        return 0.0
    return float(all(part.strip() for part in match.groups()))


def graded_format_reward(completion: str) -> float:
    """Return the share of the form that is there: a quarter for each tag that stands once in order.

    A reward for parts is easier to learn from, and to exploit: the four tags alone, without a
    thought or an answer, earn all of it. Chapter 23 shows what comes of it.
    """
    position, found = -1, 0
    for tag in TAGS:
        place = completion.find(tag)
        if completion.count(tag) == 1 and place > position:
            found += 1
            position = place
    return found / len(TAGS)


def thoughts_and_answer(completion: str) -> tuple[str, str] | None:
    """Return both parts of a completion of the right form, or None."""
    match = _FORM.fullmatch(completion)
    if match is None or format_reward(completion) == 0.0:
        return None
    return match[1].strip(), match[2].strip()
