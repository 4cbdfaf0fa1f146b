"""The search index: one entry a section of a page."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from renderer.content import Book, Node, Page
from renderer.navigation import Navigation
from renderer.nodes import plain_text

HIDDEN = {"comment", "bibliography"}
SEPARATE = {
    "admonition",
    "admonitionTitle",
    "block",
    "caption",
    "code",
    "definitionDescription",
    "definitionTerm",
    "heading",
    "listItem",
    "math",
    "outputs",
    "paragraph",
    "summary",
    "tableCell",
    "tableRow",
}
FORMULAS = {"math", "inlineMath"}
PROGRESS_BAR = re.compile(r"\d+%\|.*\||\d+(?:\.\d+)?(?:it/s|s/it)")
TEX = (
    (re.compile(r"\\(?:begin|end)\{\w+\*?\}|\\label\{[^}]*\}|\\[,;!\\]"), " "),
    (re.compile(r"\\(?:left|right|quad|qquad|math\w+|text\w*|operatorname\*?)\b"), " "),
    (re.compile(r"\\(?:hat|tilde|bar|[td]?frac)\b"), " "),
    (re.compile(r"\\([A-Za-z]+)"), r" \1"),
    (re.compile(r"[{}\\&]|[_^](?=\W)"), " "),
)
LONGEST_OUTPUT = 2000  # characters of one printed output


@dataclass
class Section:
    """What stands under one heading."""

    heading: str
    anchor: str
    words: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text in one line."""
        return re.sub(r"\s+", " ", "".join(self.words)).strip()


def search_index(book: Book, navigation: Navigation) -> str:
    """A script that hands the index to the search (a script also loads from a local file)."""
    pages = []
    sections = []
    for number, page in enumerate(book.pages):
        part = navigation.part_of(page)
        pages.append([page.title, page.path, part.title if part else ""])
        sections += [[number, s.heading, s.anchor, s.text] for s in page_sections(page)]
    data = json.dumps(
        {"pages": pages, "sections": sections}, ensure_ascii=False, separators=(",", ":")
    )
    return f"window.bookSearchIndex={data};\n"


def page_sections(page: Page) -> list[Section]:
    """The sections of a page, the part before the first heading first."""
    sections = [Section("", "")]
    about = [page.frontmatter.get(key) for key in ("subtitle", "description")]
    sections[0].words += [f"{text} " for text in about if text]
    _collect(page.tree, sections)
    return [section for section in sections if section.text or section.heading]


def _collect(node: Node, sections: list[Section]) -> None:
    kind = node["type"]
    if kind in HIDDEN or node.get("visibility") == "remove":
        return
    if kind == "heading":
        anchor = node.get("html_id") or node.get("identifier") or ""
        sections.append(Section(plain_text(node), anchor))
        return
    words = sections[-1].words
    if kind == "output":
        words.append(_printed(node["jupyter_data"]))
    elif "children" in node:
        for child in node["children"]:
            _collect(child, sections)
        words = sections[-1].words
    elif kind == "image":
        words.append(node.get("alt") or "")
    elif kind in FORMULAS:
        words.append(readable(str(node.get("value") or "")))
    else:
        words.append(str(node.get("value") or ""))
    if kind in SEPARATE:
        words.append(" ")


def _printed(output: dict) -> str:
    """The text of an output; numbers in figures cannot be searched."""
    text = output.get("text") or ""
    if not text and "text/plain" in output.get("data", {}):
        text = output["data"]["text/plain"].get("content") or ""
    text = text if isinstance(text, str) else "".join(text)
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text.rsplit("\r", 1)[-1])
    lines = [line for line in text.splitlines() if not PROGRESS_BAR.search(line)]
    return "\n".join(lines)[:LONGEST_OUTPUT] + " "


def readable(tex: str) -> str:
    """A formula as an excerpt can show it: names of commands and letters, no marks of TeX."""
    for pattern, words in TEX:
        tex = pattern.sub(words, tex)
    return re.sub(r"\s+", " ", tex).strip()
