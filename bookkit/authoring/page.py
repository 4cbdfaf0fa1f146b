"""A page: its text (MyST Markdown, the reviewed master) and the executed notebook beside it.

Both are read into the same form, `Content`, so that they can be compared cell by cell.
"""

import ast
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bookkit.authoring.macros import macros_of, show_in, written_in, written_out
from bookkit.authoring.notebook_file import _first_line, join, pasted_cell, read_notebook
from bookkit.authoring.quick import jupytext
from bookkit.authoring.reach.digests import code_digest
from bookkit.authoring.repository import relative, text_pages
from nbkit.errors import UserError
from nbkit.runs.sha256 import text_digest

TEXT_FORMAT = "md:myst"
# Keys of the front matter that are for the tools, not for the reader's page.
TOOL_KEYS = ("jupytext", "kernelspec", "nbkit", "language_info")
FRONT_MATTER_ROLE = "front-matter"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
# Code that may print the lines of a program, or its docstrings.
SEES_TEXT = ("getsource", "getdoc", "__doc__", "help(", "traceback")
# Metadata of cells that editors write and nobody means.
VOLATILE_CELL_KEYS = {"execution", "collapsed", "scrolled", "editable", "slideshow", "jupyter"}


@dataclass(frozen=True)
class Cell:
    """One cell as its author means it: no outputs, no ids, no editor's leavings."""

    kind: str
    source: str
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def tags(self) -> list[str]:
        """The cell's tags, in order."""
        return list(self.metadata.get("tags", []))

    def as_list(self) -> list[Any]:
        """The cell as plain data, for digests."""
        return [self.kind, self.source, self.metadata]


@dataclass(frozen=True)
class Content:
    """What a page says: its front matter, its settings for the tools, its cells."""

    front: dict[str, Any]
    settings: dict[str, Any]
    cells: tuple[Cell, ...]

    @property
    def text_digest(self) -> str:
        """SHA-256 of everything that the author wrote."""
        return digest([self.front, self.settings, [cell.as_list() for cell in self.cells]])

    @property
    def code_digest(self) -> str:
        """SHA-256 of what runs: the code cells in order, without docstrings, comments, format."""
        return digest([what_runs(cell) for cell in self.code_cells])

    @property
    def code_cells(self) -> list[Cell]:
        """The code cells, in order."""
        return [cell for cell in self.cells if cell.kind == "code"]


@dataclass(frozen=True)
class Page:
    """The pair of a text page and its executed notebook."""

    root: Path
    text: Path

    @property
    def name(self) -> str:
        """The text page's path from the root, as messages name it."""
        return relative(self.text, self.root)

    @property
    def notebook(self) -> Path:
        """The executed notebook beside the text."""
        return self.text.with_suffix(".ipynb")

    @property
    def notebook_name(self) -> str:
        """The notebook's path from the root, as messages name it."""
        return relative(self.notebook, self.root)

    def content(self) -> Content:
        """Read the text page.

        Raises:
            UserError: the file cannot be read as MyST text with a YAML front matter.
        """
        return content_of_text(self.text.read_text(encoding="utf-8"), self.name)

    def macros(self) -> dict[str, str]:
        """The macros of the book's formulas."""
        return macros_of(self.root)

    def stored(self) -> dict[str, Any] | None:
        """Read the executed notebook as a plain dict; None where there is none.

        Raises:
            UserError: the file is not a notebook of format 4.
        """
        return read_notebook(self.notebook, self.notebook_name)


def header_of(text: str) -> dict[str, Any]:
    """The front matter of a text page, with the keys that are for the tools.

    Raises:
        ValueError: it is not a YAML mapping between lines of dashes.
    """
    header = yaml.safe_load(text[4:].partition("\n---\n")[0]) if text[:4] == "---\n" else None
    if not isinstance(header, dict):
        raise ValueError("its front matter is not a YAML mapping between lines of dashes")
    return header


def find_pages(root: Path) -> list[Page]:
    """List every executed page of the checkout, sorted by name."""
    return [Page(root, path) for path in text_pages(root)]


def select_pages(root: Path, names: list[Path]) -> list[Page]:
    """Turn what a user typed (text page or notebook, either file of a pair) into pages.

    Raises:
        UserError: a name is not an executed page of this checkout.
    """
    known = {page.text.resolve(): page for page in find_pages(root)}
    chosen = []
    for name in names:
        text = name.resolve().with_suffix(".md")
        if text not in known:
            raise UserError(
                f"{name} is not an executed page; pages are MyST files under notebooks/, "
                "solutions/ or book/ whose front matter has a `jupytext` key"
            )
        chosen.append(known[text])
    return list(dict.fromkeys(chosen))


def content_of_text(text: str, name: str) -> Content:
    """Parse MyST text into its content.

    Raises:
        UserError: the front matter is not YAML, or the body cannot be parsed.
    """
    try:
        header_of(text)
        notebook = jupytext.reads(text, fmt=TEXT_FORMAT)
    except Exception as error:  # jupytext raises many kinds; each means that the text is not MyST
        raise UserError(f"{name} cannot be read as a MyST page: {_first_line(error)}") from error
    return content_of_notebook(notebook, name)


def content_of_notebook(notebook: dict[str, Any], name: str) -> Content:
    """Take the content out of a notebook, whether parsed from text or executed.

    Raises:
        UserError: a cell holds a pasted picture, which no text page can hold.
    """
    pasted = pasted_cell(notebook)
    if pasted is not None:
        raise UserError(
            f"{name}: cell {pasted} holds a pasted picture, which its text page cannot hold; save "
            "the picture as a file under book/pictures, link that, and remove the pasted one"
        )
    metadata = dict(notebook["metadata"])
    settings = {
        key: value
        for key, value in _plain(metadata.get("nbkit", {})).items()
        if key not in {"stamp", "draws", "exercise"}
    }
    front = {key: value for key, value in _plain(metadata).items() if key not in TOOL_KEYS}
    front.pop("widgets", None)
    cells = []
    for cell in notebook["cells"]:
        source = join(cell["source"])
        if is_front_matter(cell):
            front = _front_matter(source)
            continue
        if not source.strip():
            continue
        source, metadata_of_cell = written_in(source, _plain(cell["metadata"]))
        kept = {k: v for k, v in metadata_of_cell.items() if k not in VOLATILE_CELL_KEYS}
        cells.append(Cell(cell["cell_type"], source.strip("\n"), kept))
    return Content(front, settings, tuple(cells))


def notebook_of_content(
    content: Content, *, key: str, macros: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Build a notebook without outputs, in the form that is stored.

    Args:
        content: what the page says.
        key: the page's path; it makes the cell ids unique in the book, as mystmd wants them.
        macros: of the book's formulas; they are written out.
    """
    cells = []
    if content.front:
        header = yaml.safe_dump(content.front, sort_keys=False, allow_unicode=True)
        cells.append(_cell("markdown", f"---\n{header}---", {"nbkit": FRONT_MATTER_ROLE}))
    cells += [_cell(cell.kind, cell.source, dict(cell.metadata)) for cell in content.cells]
    for cell, identifier in zip(cells, _cell_ids(key, cells), strict=True):
        cell["id"] = identifier
        if cell["cell_type"] == "markdown" and not is_front_matter(cell):
            show_in(cell, written_out(cell["source"], macros or {}))
    metadata: dict[str, Any] = {"kernelspec": dict(KERNEL), "language_info": {"name": "python"}}
    if content.settings:
        metadata["nbkit"] = dict(content.settings)
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def shows_what_is_written(
    notebook: dict[str, Any], content: Content, macros: Mapping[str, str]
) -> bool:
    """Whether the formulas of a stored notebook are those of the text, its macros written out."""
    wanted = notebook_of_content(content, key="", macros=macros)
    return shown_texts(notebook) == shown_texts(wanted)


def shown_texts(notebook: dict[str, Any]) -> list[str]:
    """What the Markdown cells of a notebook show, in order, the front matter left out."""
    cells = (c for c in notebook["cells"] if c["cell_type"] == "markdown")
    sources = [join(cell["source"]).strip("\n") for cell in cells if not is_front_matter(cell)]
    return [source for source in sources if source.strip()]


def is_front_matter(cell: dict[str, Any]) -> bool:
    """Say whether a cell is the generated first cell that carries the front matter to mystmd."""
    return cell["metadata"].get("nbkit") == FRONT_MATTER_ROLE


def digest(value: Any) -> str:
    """SHA-256 of plain data, independent of the order of keys."""
    data = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return text_digest(data)


def what_runs(cell: Cell) -> str:
    """A digest of a code cell's syntax; its text where an output could show how it is written."""
    if "raises-exception" in cell.tags or any(word in cell.source for word in SEES_TEXT):
        return cell.source
    try:
        return code_digest([ast.parse(cell.source)])
    except SyntaxError:  # a magic of IPython, which may hand on the text
        return cell.source


def _cell(kind: str, source: str, metadata: dict[str, Any]) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "source": source, "metadata": metadata}
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell


def _cell_ids(key: str, cells: list[dict[str, Any]]) -> list[str]:
    """Ids that change only where a cell's text changes, so that diffs stay small."""
    seen: Counter[str] = Counter()
    identifiers = []
    for cell in cells:
        base = digest([key, cell["cell_type"], cell["source"]])[:12]
        seen[base] += 1
        identifiers.append(base if seen[base] == 1 else f"{base}-{seen[base]}")
    return identifiers


def _front_matter(source: str) -> dict[str, Any]:
    lines = source.strip().splitlines()
    try:
        front = yaml.safe_load("\n".join(lines[1:-1]))
    except yaml.YAMLError as error:
        raise UserError(f"the front matter is not YAML: {_first_line(error)}") from error
    if lines[0] != "---" or lines[-1] != "---" or not isinstance(front, dict):
        raise UserError("the front matter must be YAML between two lines of three dashes")
    return _plain(front)


def _plain(value: Any) -> Any:
    """Notebook nodes and YAML dates as plain JSON data."""
    return json.loads(json.dumps(value, default=str))
