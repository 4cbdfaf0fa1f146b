"""From preferences to token ids, with every cut in plain sight."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from nbkit._inputs import check_choice, check_number
from nbkit.data.preferences import Collector, LoadReport, Message, Preference, RowError

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Example:
    """A prompt and an answer to learn by heart.

    Attributes:
        prompt_ids: up to where the answer begins.
        answer_ids: the answer; its last id is EOS unless it was cut.

    """

    prompt_ids: Ids
    answer_ids: Ids


@dataclass(frozen=True)
class EncodedPair:
    """A prompt and two answers, of which the first was preferred.

    Attributes:
        prompt_ids: up to where the answers begin.
        chosen_ids: the answer that won; its last id is EOS unless it was cut.
        rejected_ids: the other one.
        margin: how much better, or None.
        row: where it came from, or None.

    """

    prompt_ids: Ids
    chosen_ids: Ids
    rejected_ids: Ids
    margin: float | None = None
    row: int | None = None


@dataclass(frozen=True)
class EncodedPairs:
    """Encoded pairs, what became of the others, and how many were cut.

    Attributes:
        pairs: what can be learned from.
        report: pairs that were left out, by row.
        cut_prompts: how many kept prompts lost tokens.
        cut_answers: how many kept answers lost tokens (two a pair).

    """

    pairs: list[EncodedPair]
    report: LoadReport
    cut_prompts: int
    cut_answers: int


class Encoder(Protocol):
    """Chats to ids."""

    def prompt_ids(self, messages: Sequence[Message]) -> Ids:
        """Ids of a chat up to where the assistant's answer begins."""
        ...

    def answer_ids(self, messages: Sequence[Message], answer: str) -> Ids:
        """Ids of the answer that follows this chat, its end mark included."""
        ...


def encode_preferences(
    preferences: Sequence[Preference],
    encoder: Encoder,
    *,
    max_prompt: int,
    max_answer: int,
    long_prompt: str = "keep-end",
) -> EncodedPairs:
    """Encode pairs and cut them to length.

    Args:
        preferences: from a loader.
        encoder: see ``nbkit.data.chat``.
        max_prompt: most ids of a prompt.
        max_answer: most ids of an answer; what is behind them is cut, the end mark too.
        long_prompt: what happens to a longer prompt: "keep-end" (the first ids are cut, and the
            last question stays), "keep-start", or "drop" (the pair is left out).

    Returns:
        The pairs, and a report of those that were left out: "identical after truncation" (both
        answers begin with the same `max_answer` ids), "prompt too long", "refused by the template"
        (its roles are none that the model's chat template takes).

    Raises:
        ValueError: limits below 1, or an unknown `long_prompt`.

    """
    check_number("max_prompt", max_prompt, 1)
    check_number("max_answer", max_answer, 1)
    check_choice("long_prompt", long_prompt, ("keep-end", "keep-start", "drop"))
    collector = Collector()
    cuts = {"prompts": 0, "answers": 0}

    def encode(preference: Preference) -> EncodedPair:
        prompt = encoder.prompt_ids(preference.prompt)
        if len(prompt) > max_prompt and long_prompt == "drop":
            raise RowError("prompt too long", f"{len(prompt)} ids, limit {max_prompt}")
        start = max(0, len(prompt) - max_prompt) if long_prompt == "keep-end" else 0
        answers = [
            encoder.answer_ids(preference.prompt, answer)
            for answer in (preference.chosen, preference.rejected)
        ]
        chosen, rejected = (answer[:max_answer] for answer in answers)
        if chosen == rejected:
            whole = "also before it" if answers[0] == answers[1] else f"limit {max_answer} ids"
            raise RowError("identical after truncation", whole)
        cuts["prompts"] += len(prompt) > max_prompt
        cuts["answers"] += sum(len(answer) > max_answer for answer in answers)
        kept = prompt[start : start + max_prompt]
        return EncodedPair(kept, chosen, rejected, preference.margin, preference.row)

    for preference in preferences:
        collector.add(preference.row, partial(encode, preference))
    return EncodedPairs(collector.kept, collector.report(), cuts["prompts"], cuts["answers"])
