"""The reading times that run cards state, against those that are counted."""

import re
from collections.abc import Iterator
from pathlib import Path

from bookkit.authoring.reading_time import (
    CODE_LINES_A_MINUTE,
    WORDS_A_MINUTE,
    reading_time,
)
from bookkit.authoring.repository import relative
from bookkit.authoring.stamp import Finding

RULE = f"({WORDS_A_MINUTE} words and {CODE_LINES_A_MINUTE} lines of code a minute)"
RUN_CARD = re.compile(r"^:class: run-card$", re.MULTILINE)
STATED = re.compile(r"^: (\d+) minutes of reading(?: on the core path)? (\([^)]*\))", re.MULTILINE)


def card_findings(root: Path, page: Path) -> Iterator[Finding]:
    """Compare the stated reading time of a page with the counted one.

    Args:
        root: the checkout.
        page: a text page; one without a run card, or a solution, has no reading time.
    """
    name = relative(page, root)
    text = page.read_text(encoding="utf-8")
    card = RUN_CARD.search(text)
    if card is None:
        return
    stated = STATED.search(text, card.end())
    line = text[: stated.start() if stated else card.start()].count("\n") + 1
    right = reading_time(text).minutes
    if stated is None:
        if page.parent.name == "notebooks":
            mend = f"write `: {right} minutes of reading on the core path {RULE}`"
            yield Finding(name, "its run card states no reading time", mend, line)
    elif int(stated[1]) != right:
        problem = f"its run card states {stated[1]} minutes of reading, counted are {right}"
        yield Finding(name, problem, f"write {right} minutes", line)
    elif stated[2] != RULE:
        yield Finding(name, f"its run card counts by {stated[2]}", f"write {RULE}", line)
