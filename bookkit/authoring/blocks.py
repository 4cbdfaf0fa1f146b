"""A page as its reader sees it: headings, paragraphs, tables, equations and cells, in order."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bookkit.authoring.prose import DIRECTIVE, FENCE, after_front_matter, closes, holds_code

HEADING = re.compile(r"^#{1,6}\s+\S")
OPTION = re.compile(r"^:([\w-]+):\s*(.*)$")
ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+\S")
LABEL = re.compile(r"^\([\w-]+\)=$")


@dataclass(frozen=True)
class Block:
    """One part of a page.

    Attributes:
        kind: `heading`, `prose` (a paragraph or one item of a list), `table`, `math`, `cell` (code
            that runs) or `code` (code that does not).
        line: the number of its first line in the file, from 1.
        text: its lines; of a cell the source without options.
        options: of a cell the options, such as `tags`.
        inside: the classes and names of the directives around it, such as `dropdown`.
    """

    kind: str
    line: int
    text: str
    options: tuple[tuple[str, str], ...] = ()
    inside: tuple[str, ...] = ()

    @property
    def tags(self) -> set[str]:
        """The tags of a cell."""
        return set(re.findall(r"[\w-]+", dict(self.options).get("tags", "")))

    @property
    def folded(self) -> bool:
        """Whether a reader has to unfold it."""
        return "dropdown" in self.inside


@dataclass
class _Directive:
    mark: str
    names: list[str]
    takes_options: bool = True


def blocks_of(text: str) -> Iterator[Block]:
    """Walk the parts of a MyST page, front matter and comments left out."""
    lines = list(_body(text))
    around: list[_Directive] = []
    position = 0
    while position < len(lines):
        number, line = lines[position]
        inside = tuple(name for directive in around for name in directive.names)
        fence = FENCE.match(line)
        if fence and around and closes(fence, around[-1].mark):
            around.pop()
            position += 1
        elif fence and holds_code(fence):
            end = _end_of_fence(lines, position, fence.group(1))
            yield _fenced(number, fence, [line for _, line in lines[position + 1 : end]], inside)
            position = end + 1
        elif fence:
            directive = DIRECTIVE.match(fence.group(2))
            around.append(_Directive(fence.group(1), [directive[1]] if directive else []))
            position += 1
        elif around and around[-1].takes_options and OPTION.match(line):
            around[-1].names += _classes(line)
            position += 1
        else:
            if around:
                around[-1].takes_options = False
            block, position = _plain(lines, position, inside)
            if block is not None:
                yield block


def _body(text: str) -> Iterator[tuple[int, str]]:
    lines = text.splitlines()
    start = lines.index("---", 1) + 1 if lines[:1] == ["---"] and "---" in lines[1:] else 0
    yield from ((n, line) for n, line in after_front_matter(lines) if n > start)


def _end_of_fence(lines: list[tuple[int, str]], start: int, mark: str) -> int:
    for position in range(start + 1, len(lines)):
        fence = FENCE.match(lines[position][1])
        if fence and closes(fence, mark):
            return position
    return len(lines)


def _fenced(number: int, fence: re.Match[str], body: list[str], inside: tuple[str, ...]) -> Block:
    directive = DIRECTIVE.match(fence.group(2))
    name = directive[1] if directive else ""
    kind = {"code-cell": "cell", "math": "math"}.get(name, "code")
    options = []
    while body and (option := OPTION.match(body[0])):
        options.append((option[1], option[2]))
        body = body[1:]
    return Block(kind, number, "\n".join(body).strip("\n"), tuple(options), inside)


def _classes(option: str) -> list[str]:
    found = OPTION.match(option)
    return found[2].split() if found and found[1] == "class" else []


def _plain(
    lines: list[tuple[int, str]], start: int, inside: tuple[str, ...]
) -> tuple[Block | None, int]:
    """The block that begins at a line outside any fence, and where the next one begins."""
    number, line = lines[start]
    if not line.strip() or line.lstrip().startswith(("%", "+++")) or LABEL.match(line):
        return None, start + 1
    if HEADING.match(line):
        return Block("heading", number, line, inside=inside), start + 1
    end = start + 1
    if line.lstrip().startswith("$$"):
        while end < len(lines) and line.count("$$") % 2:
            line += "\n" + lines[end][1]
            end += 1
        return Block("math", number, line, inside=inside), end
    while end < len(lines) and not _begins(lines[end][1]):
        end += 1
    kind = "table" if line.startswith("|") else "prose"
    return Block(kind, number, "\n".join(line for _, line in lines[start:end]), (), inside), end


def _begins(line: str) -> bool:
    """Whether a line ends the paragraph before it."""
    return (
        not line.strip()
        or line.lstrip().startswith(("$$", "%", "+++"))
        or any(mark.match(line) for mark in (HEADING, FENCE, ITEM, LABEL))
    )
