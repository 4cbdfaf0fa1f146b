"""Anthropic's HH-RLHF: JSON lines with two whole dialogues, "chosen" and "rejected".

A dialogue is one text whose turns begin with "\\n\\nHuman:" and "\\n\\nAssistant:". The two of a
row share everything but the last answer, and what they share is the prompt (Bai et al.,
arXiv:2204.05862).
"""

import re
from pathlib import Path
from typing import Any

from nbkit.data.preferences import (
    Loaded,
    Message,
    Preference,
    RowError,
    checked,
    load_rows,
    text_field,
)

_TURN = re.compile(r"(?:^|\n\n)(Human|Assistant):")
_ROLES = {"Human": "user", "Assistant": "assistant"}


def parse_dialogue(text: str) -> list[Message]:
    """Return the turns of a dialogue, without the spaces around them.

    Args:
        text: begins with a "Human:" or "Assistant:" turn. The same words inside a turn, not at the
            beginning of a paragraph, are text.

    Raises:
        RowError: "missing turn" where a text begins with anything else, does not begin with a
            human, or has two turns of one speaker in a row.

    """
    marks = list(_TURN.finditer(text))
    if not marks or text[: marks[0].start()].strip():
        raise RowError("missing turn", f"no turn at the beginning: {text.strip()[:40]!r}")
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    messages = [
        Message(_ROLES[mark.group(1)], text[mark.end() : end].strip())
        for mark, end in zip(marks, ends, strict=True)
    ]
    if messages[0].role != "user":
        raise RowError("missing turn", "the dialogue begins with the assistant")
    for i in range(1, len(messages)):
        if messages[i].role == messages[i - 1].role:
            raise RowError("missing turn", f"turns {i} and {i + 1} are both {messages[i].role}'s")
    return messages


def parse_hh(row: dict[str, Any], number: int) -> Preference:
    """Return the preference of a row.

    Raises:
        RowError: "missing field", "wrong type", "missing turn" (also where a dialogue does not end
            with the assistant), "different prompts", "empty answer", "equal pair".

    """
    dialogues = {}
    for name in ("chosen", "rejected"):
        messages = parse_dialogue(text_field(row, name))
        if messages[-1].role != "assistant":
            raise RowError("missing turn", f"{name} does not end with the assistant's turn")
        dialogues[name] = messages
    chosen, rejected = dialogues["chosen"], dialogues["rejected"]
    if chosen[:-1] != rejected[:-1]:
        turn = next(
            (i for i, (a, b) in enumerate(zip(chosen, rejected, strict=False), 1) if a != b),
            min(len(chosen), len(rejected)),
        )
        raise RowError("different prompts", f"the dialogues part at turn {turn}")
    return checked(chosen[:-1], chosen[-1].content, rejected[-1].content, number)


def hh_files(data: Path | str) -> list[Path]:
    """Find the training files of HH-RLHF.

    Args:
        data: a file, a folder with files ``train.jsonl`` or ``train.jsonl.gz`` in it or below, or
            a name on the hub such as ``Anthropic/hh-rlhf``, which is fetched once.

    Raises:
        ValueError: nothing is there, or nothing can be fetched; the sentence says what to do.

    """
    from nbkit.data.prefetch import local_folder  # only here: the hub's client is not light

    place = local_folder(str(data), "dataset")
    if place.is_file():
        return [place]
    found = sorted(place.rglob("*train.jsonl*"))
    if not found:
        raise ValueError(
            f"data: no file train.jsonl or train.jsonl.gz in {data}; put HH-RLHF's files there, or "
            "give its name on the hub, Anthropic/hh-rlhf"
        )
    return found


def load_hh(path: Path | str) -> Loaded:
    """Read a file of HH-RLHF, ".jsonl" or ".jsonl.gz"; broken rows are in the report.

    Args:
        path: such as ``harmless-base/train.jsonl.gz`` of the published data.

    Raises:
        FileNotFoundError: there is no such file.

    """
    return load_rows(path, parse_hh)
