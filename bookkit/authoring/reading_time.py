"""How long a page takes to read, counted from its words and its lines of code."""

import re
from dataclasses import dataclass

from bookkit.authoring.blocks import Block, blocks_of
from bookkit.authoring.prose import line_of

WORDS_A_MINUTE = 220
# A line of the chapters holds about seven names and numbers, so it takes what seven words take.
CODE_LINES_A_MINUTE = 30
NEAREST_MINUTES = 5
READ = {"heading", "prose", "table"}
HIDDEN = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
WORD = re.compile(r"\w[\w'’./-]*")


@dataclass(frozen=True)
class ReadingTime:
    """What a reader meets on the core path: everything that is not folded or hidden.

    Attributes:
        words: the words of prose, tables and headings; formulas are not counted.
        code_lines: the lines of code that are not blank.
    """

    words: int
    code_lines: int

    @property
    def exact_minutes(self) -> float:
        """Minutes for both, before they are rounded."""
        return self.words / WORDS_A_MINUTE + self.code_lines / CODE_LINES_A_MINUTE

    @property
    def minutes(self) -> int:
        """Minutes, to the nearest five, and at least five."""
        return max(1, int(self.exact_minutes / NEAREST_MINUTES + 0.5)) * NEAREST_MINUTES


def reading_time(text: str) -> ReadingTime:
    """Count a page, given as MyST text."""
    blocks = [block for block in blocks_of(text) if not block.folded]
    return ReadingTime(sum(map(_words, blocks)), sum(map(_code_lines, blocks)))


def _words(block: Block) -> int:
    if block.kind not in READ:
        return 0
    line = line_of(block.line, block.text.replace("\n", " "))
    return len(WORD.findall(line.words)) + len(line.codes)


def _code_lines(block: Block) -> int:
    if block.kind not in {"cell", "code"} or HIDDEN & block.tags:
        return 0
    return sum(bool(line.strip()) for line in block.text.splitlines())
