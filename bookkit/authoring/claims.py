"""Sentences of a chapter that claim something, and whether evidence stands beside them."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bookkit.authoring.blocks import Block
from bookkit.authoring.claim_words import claim_words
from bookkit.authoring.prose import MATH, Line, line_of
from bookkit.authoring.quoted_numbers import Numbers, measured_numbers

# What shows something: an assertion, a recorded figure, a picture, a table, a print.
EVIDENCE = re.compile(
    r"^\s*assert\b|assert_close\(|assert_allclose\(|nbkit\.(?:record|measured|check)\(|\bplots\.(?!use_style)|"
    r"\bread_result\(|\bprint\(|\bdisplay\(|\.style\b|^pd\.DataFrame\(",
    re.MULTILINE,
)
SENTENCE_END = re.compile(r"(?<=[.!?])(?P<close>[)\"”*_]*)\s+(?=[(\[\"“*_`$]*[A-Z0-9$`])")
# The text that stands for a picture is written by hand, so it shows nothing.
ALT_TEXT = re.compile(r'\balt=\(?(?:\s*f?"[^"]*")+')
CITED = {"cite", "cite:p", "cite:t", "citep", "citet"}
SHOWN = {"eq", "ref", "numref", "prf:ref"}
CITATION = re.compile(r"\[-?@[^\]]+\]")
MARKER = re.compile(r"^\s*(?:[-*+]|\d+\.|:)\s+")
NOT_A_CLAIM = {"run-card", "exercise"}
TASKS = ("**Further exercises", "**Further reading", "**Predict")
GOAL = "**Goal:**"
# The line under an exercise's heading: its name, its difficulty and how long it takes.
EXERCISE_HEAD = re.compile(r"^`[\w.]+` · difficulty ")
BY_HAND = "**By hand.**"
CHECK = re.compile(r"\bnbkit\.check\(")


@dataclass(frozen=True)
class Claim:
    """A sentence that nothing beside it shows.

    Attributes:
        line: the number of the line on which it begins.
        sentence: its text, with single spaces.
        why: the words and numbers that want evidence, as written.
    """

    line: int
    sentence: str
    why: tuple[str, ...]


def unshown_claims(blocks: Sequence[Block], outputs: Sequence[str]) -> Iterator[Claim]:
    """Find the sentences of a page that claim something without evidence beside them.

    A comparison, and a cause that is not called a guess, want a cell or an equation that shows
    something directly before or after their paragraph; hints and worked examples stand beside the
    check of their exercise. A number wants to be in a cell, an output or an equation of its
    section. A sentence that cites a source or points to a page, a section or an equation needs
    neither.

    Args:
        blocks: the page, in order.
        outputs: what the page's code cells show, in order, as text.
    """
    numbers = _numbers_of_sections(blocks, outputs)
    section = 0
    for position, block in enumerate(blocks):
        section += block.kind == "heading"
        if not _claims(block):
            continue
        beside = stands_beside_evidence(blocks, position) or leads_to_check(blocks, position)
        for number, sentence in sentences_of(block):
            line = line_of(number, sentence)
            if _asks(sentence) or _points_elsewhere(line):
                continue
            words = [] if beside else claim_words(line.words)
            words += [
                number
                for number, share in measured_numbers(line.words)
                if not numbers[section].hold(number, share=share)
            ]
            if words:
                yield Claim(number, sentence, tuple(dict.fromkeys(words)))


def sentences_of(block: Block) -> list[tuple[int, str]]:
    """The sentences of a paragraph with the numbers of the lines on which they begin.

    Each is one line with single spaces, without the mark of a list.
    """
    text, starts = "", []
    for line in MARKER.sub("", block.text).splitlines():
        starts.append(len(text))
        text += " ".join(line.split()) + " "
    gaps = [(gap.end("close"), gap.end()) for gap in SENTENCE_END.finditer(text)]
    begins, ends = [0, *(end for _, end in gaps)], [*(begin for begin, _ in gaps), len(text)]
    return [
        (block.line + sum(start <= begin for start in starts) - 1, text[begin:end].strip())
        for begin, end in zip(begins, ends, strict=True)
        if text[begin:end].strip()
    ]


def stands_beside_evidence(blocks: Sequence[Block], position: int) -> bool:
    """Whether what stands directly before or after a paragraph shows something.

    The items of a list stand together; a paragraph between, or a heading, parts.
    """
    return any(
        neighbour is not None and _shows(neighbour)
        for neighbour in (_neighbour(blocks, position, -1), _neighbour(blocks, position, 1))
    )


def leads_to_check(blocks: Sequence[Block], position: int) -> bool:
    """Whether a paragraph is a hint or a worked example of an exercise that is checked below it."""
    block = blocks[position]
    if not (block.folded or block.text.startswith(BY_HAND)):
        return False
    for later in blocks[position + 1 :]:
        if later.kind == "heading":
            return False
        if later.kind == "cell" and CHECK.search(later.text):
            return True
    return False


def _neighbour(blocks: Sequence[Block], position: int, step: int) -> Block | None:
    """The next block that is no item of the same list."""
    in_list = MARKER.match(blocks[position].text) is not None
    position += step
    while 0 <= position < len(blocks):
        block = blocks[position]
        if not (in_list and block.kind == "prose" and MARKER.match(block.text)):
            return block
        position += step
    return None


def _numbers_of_sections(blocks: Sequence[Block], outputs: Sequence[str]) -> list[Numbers]:
    """What the cells, outputs and equations hold, before the first heading and after each."""
    texts: list[list[str]] = [[]]
    shown = iter(outputs)
    for block in blocks:
        if block.kind == "heading":
            texts.append([])
        elif block.kind == "cell":
            texts[-1] += [ALT_TEXT.sub("", block.text), next(shown)]
        elif block.kind == "math":
            texts[-1].append(block.text)
        elif block.kind == "prose":
            texts[-1] += MATH.findall(block.text)
    return [Numbers(section) for section in texts]


def _claims(block: Block) -> bool:
    return (
        block.kind == "prose"
        and not NOT_A_CLAIM.intersection(block.inside)
        and not block.text.startswith(TASKS)
        and EXERCISE_HEAD.match(block.text) is None
    )


def _asks(sentence: str) -> bool:
    """Whether a sentence is a question or the goal of an exercise."""
    return sentence.startswith(GOAL) or sentence.rstrip("*_)").endswith("?")


def _shows(block: Block) -> bool:
    if block.kind == "cell":
        return EVIDENCE.search(_executed(block.text)) is not None
    return block.kind == "math"


def _executed(source: str) -> str:
    """The statements of a cell without comments and without the definitions, which only define."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return source  # a cell with a magic command, which Python alone cannot parse
    definitions = (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)
    return "\n".join(ast.unparse(node) for node in body if not isinstance(node, definitions))


def _points_elsewhere(line: Line) -> bool:
    """Whether a sentence cites a source, or names the equation or section that shows it."""
    roles = {role for role, _ in line.roles}
    return bool(
        roles & (CITED | SHOWN)
        or CITATION.search(line.words)
        or any(_is_page(link) for link in line.links)
    )


def _is_page(link: str) -> bool:
    page, _, anchor = link.partition("#")
    return bool(anchor) or (page.endswith((".ipynb", ".md")) and "exercises/" not in page)
