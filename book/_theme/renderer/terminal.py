"""Text as a terminal would have shown it: carriage returns and colours."""

import re

from nbconvert.filters.ansi import ansi2html

COLOUR_CODES = re.compile(r"\x1b\[[0-9;:]*m")
OTHER_CODES = re.compile(r"\x1b\[[0-9;?]*[A-LN-Za-ln-z]|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]")


def terminal_html(text: str) -> str:
    """HTML of what a program printed: overwritten lines are dropped, ANSI colours are classes."""
    return str(ansi2html(drop_overwritten(OTHER_CODES.sub("", text))))


def drop_overwritten(text: str) -> str:
    """Keep of each line what stood after its last carriage return (a finished progress bar)."""
    lines = []
    for line in text.split("\n"):
        parts = [part for part in line.split("\r") if COLOUR_CODES.sub("", part)]
        lines.append(parts[-1].rstrip() if parts else "")
    return "\n".join(lines)
