"""Preference pairs as TRL takes them: prompt, chosen, rejected; texts or lists of messages."""

from pathlib import Path
from typing import Any

from nbkit.data.preferences import (
    Loaded,
    Message,
    Preference,
    RowError,
    chat_field,
    checked,
    load_rows,
    number_field,
    text_field,
)


def parse_pair(row: dict[str, Any], number: int) -> Preference:
    """Return the preference of a row in any of the four forms.

    With a "prompt" (text or messages), "chosen" and "rejected" hold the answers. Without one they
    are whole chats with a common beginning, which is the prompt. Texts need a prompt.

    Raises:
        RowError: "missing field", "wrong type", "unknown role", "missing turn", "different
            prompts", "empty answer", "equal pair".

    """
    margin = _margin(row)
    if isinstance(row.get("prompt"), str):
        prompt = [Message("user", text_field(row, "prompt"))]
        return checked(
            prompt, text_field(row, "chosen"), text_field(row, "rejected"), number, margin
        )
    chosen, rejected = chat_field(row, "chosen"), chat_field(row, "rejected")
    if row.get("prompt") is not None:
        prompt = chat_field(row, "prompt")
        return checked(
            prompt, _answer(chosen, "chosen"), _answer(rejected, "rejected"), number, margin
        )
    for name, chat in (("chosen", chosen), ("rejected", rejected)):
        if not chat or chat[-1].role != "assistant":
            raise RowError("missing turn", f"{name} does not end with the assistant's turn")
    if chosen[:-1] != rejected[:-1]:
        raise RowError("different prompts", "chosen and rejected differ before their last turn")
    return checked(chosen[:-1], chosen[-1].content, rejected[-1].content, number, margin)


def _answer(messages: list[Message], name: str) -> str:
    """The one turn of an answer beside a prompt."""
    if not messages:
        raise RowError("missing turn", f"{name} is an empty list")
    if len(messages) > 1 or messages[0].role != "assistant":
        roles = ", ".join(message.role for message in messages)
        raise RowError("missing turn", f"{name} must be one assistant's turn, not {roles}")
    return messages[0].content


def _margin(row: dict[str, Any]) -> float | None:
    margin = row.get("margin")
    return None if margin is None else number_field(margin, "margin")


def load_pairs(path: Path | str) -> Loaded:
    """Read JSON lines with prompt, chosen, rejected; broken rows are in the report.

    Args:
        path: ".jsonl" or ".jsonl.gz".

    Raises:
        FileNotFoundError: there is no such file.

    """
    return load_rows(path, parse_pair)
