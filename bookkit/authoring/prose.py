"""Finds the prose in a Markdown page: its lines without code, each with its number."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

FENCE = re.compile(r"^\s*(`{3,}|~{3,}|:{3,})\s*(.*)$")
DIRECTIVE = re.compile(r"^\{([\w:-]+)\}")
# Directives whose body is not prose.
CODE_DIRECTIVES = {
    "code", "code-block", "code-cell", "sourcecode", "math", "mermaid", "raw", "literalinclude",
    "embed", "include",
}  # fmt: skip
PROSE_KEYS = re.compile(r"^(?:title|short_title|subtitle|description):\s*(.*)$")
ROLE = re.compile(r"(?<!`)\{([\w:-]+)\}(`+)(.+?)\2")
CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)[^)]*\)")
MATH = re.compile(r"\$\$.*?\$\$|(?<!\\)\$[^$]+\$")
ADDRESS = re.compile(r"<https?://[^>]*>|https?://\S+")


@dataclass(frozen=True)
class Line:
    """One line of prose and what stands in it.

    Attributes:
        number: the line's number in the file, from 1.
        text: the line as written.
        words: the line without inline code, roles, mathematics, addresses and link targets.
        codes: what stands between backticks.
        roles: pairs of a role and its content, as in {cite}`key`.
        links: the targets of links.
    """

    number: int
    text: str
    words: str
    codes: tuple[str, ...]
    roles: tuple[tuple[str, str], ...]
    links: tuple[str, ...]


def prose_lines(text: str) -> Iterator[Line]:
    """Walk the prose of a page; code blocks, mathematics and comments are left out."""
    fences: list[tuple[str, bool]] = []
    lines = text.splitlines()
    in_math = False
    for number, line in after_front_matter(lines):
        fence = FENCE.match(line)
        in_code = any(is_code for _, is_code in fences)
        if fence and fences and closes(fence, fences[-1][0]):
            fences.pop()
            continue
        if fence and not in_code:
            fences.append((fence.group(1), holds_code(fence)))
            if not fences[-1][1]:
                yield line_of(number, DIRECTIVE.sub("", fence.group(2)))
            continue
        if in_code or line.lstrip().startswith(("%", "+++")):
            continue
        if line.count("$$") % 2:
            in_math = not in_math
            continue
        if not in_math:
            yield line_of(number, line)


def after_front_matter(lines: list[str]) -> Iterator[tuple[int, str]]:
    """The lines with their numbers; of the front matter only what a reader sees."""
    in_front = bool(lines) and lines[0] == "---"
    for number, line in enumerate(lines, start=1):
        if number == 1 and in_front:
            continue
        if in_front:
            in_front = line != "---"
            seen = PROSE_KEYS.match(line)
            if seen:
                yield number, seen.group(1)
        else:
            yield number, line


def closes(fence: re.Match[str], opening: str) -> bool:
    """Whether a fence ends the block that the mark `opening` began."""
    mark = fence.group(1)
    return mark[0] == opening[0] and len(mark) >= len(opening) and not fence.group(2).strip()


def holds_code(fence: re.Match[str]) -> bool:
    """Whether the block that a fence begins has a body that is not prose."""
    directive = DIRECTIVE.match(fence.group(2))
    if directive is None:
        return not fence.group(1).startswith(":")
    return directive.group(1) in CODE_DIRECTIVES


def line_of(number: int, text: str) -> Line:
    """Take a text apart into words, code, roles and links."""
    roles = tuple((found[1], found[3].strip()) for found in ROLE.finditer(text))
    rest = ROLE.sub(" ", text)
    codes = tuple(found[2].strip() for found in CODE.finditer(rest))
    rest = CODE.sub(" ", rest)
    links = tuple(found[2] for found in LINK.finditer(rest))
    words = LINK.sub(r" \1 ", rest)
    words = MATH.sub(" ", ADDRESS.sub(" ", words))
    return Line(number, text, words, codes, roles, links)
