"""`nbkit sync`: takes what was edited in a notebook back into its text page, losing nothing."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from bookkit.authoring.page import (
    TEXT_FORMAT,
    Content,
    Page,
    content_of_notebook,
    content_of_text,
    notebook_of_content,
    read_notebook,
)
from bookkit.authoring.quick import jupytext, nbformat
from bookkit.authoring.repository import relative, write_atomically
from bookkit.authoring.stamp import HEADER, edited_side
from nbkit.errors import UserError


def sync(page: Page) -> str:
    """Bring the text of a page up to its notebook.

    Returns:
        One line that says what was done.

    Raises:
        UserError: both files were edited; then the notebook's text is written to a third file
            beside them, to be merged by hand, and neither is touched. A third file that holds
            something else, a merge under way perhaps, is not touched either.
    """
    side = edited_side(page)
    if side == "none":
        return f"{page.name}: nothing to do"
    if side == "text":
        return f"{page.name}: the text is ahead of the notebook; run `nbkit execute {page.name}`"
    notebook = page.stored()
    assert notebook is not None
    old = page.text.read_text(encoding="utf-8")
    new = text_of_notebook(notebook, old, page.notebook_name)
    if side == "both":
        other = page.text.with_suffix(".from-notebook.txt")
        if other.exists() and other.read_text(encoding="utf-8") != new:
            raise UserError(
                f"{page.name} and {page.notebook_name} were both edited, and "
                f"{relative(other, page.root)} holds another text than the notebook and stays as "
                f"it is; finish the merge, or move that file away, and run `nbkit sync {page.name}`"
            )
        write_atomically(other, new)
        raise UserError(
            f"{page.name} and {page.notebook_name} were both edited; the notebook's text is in "
            f"{relative(other, page.root)}: merge it into {page.name} by hand, delete the "
            f"notebook, and run `nbkit execute {page.name}`"
        )
    write_atomically(page.text, new)
    return f"{page.name}: took the edits of {page.notebook_name}; run `nbkit execute {page.name}`"


def adopt(path: Path, root: Path) -> str:
    """Make the text page of a notebook that has none.

    Returns:
        One line that says what was done.

    Raises:
        UserError: there is no such notebook, or a file stands where the text page would go.
    """
    name = relative(path, root)
    text = path.with_suffix(".md")
    if text.exists():
        raise UserError(f"{relative(text, root)} exists and is no executed page; move it away")
    notebook = read_notebook(path, name)
    if notebook is None:
        raise UserError(f"{name} does not exist")
    write_atomically(text, text_of_notebook(notebook, "", name))
    return f"{relative(text, root)}: made from {name}; run `nbkit execute {relative(text, root)}`"


def text_of_notebook(notebook: dict[str, Any], old: str, name: str) -> str:
    """Write a notebook's cells as MyST text, under the old text's header where it still holds.

    Raises:
        UserError: the text would not read back as the same cells, so it must not be trusted.
    """
    content = content_of_notebook(notebook, name)
    made = notebook_of_content(replace(content, front={}, settings={}), key=name)
    made["metadata"]["jupytext"] = {"default_lexer": _lexer(old)}
    body = jupytext.writes(nbformat.from_dict(made), fmt=TEXT_FORMAT)
    new = _header(content, old, name) + _after_header(body)
    if content_of_text(new, name) != content:
        raise UserError(
            f"{name}: its cells cannot be written as MyST text without a change; "
            "edit the text page instead"
        )
    return new


def _lexer(old: str) -> str:
    """The language that the text names after `{code-cell}`."""
    found = re.search(r"^```\{code-cell\} *(\S*)", old, flags=re.MULTILINE)
    return found.group(1) if found else "ipython3"


def _header(content: Content, old: str, name: str) -> str:
    """The old header to the letter if it says the same, else a new one with the new values."""
    if old:
        before = content_of_text(old, name)
        if before.front == content.front and before.settings == content.settings:
            return old[: len(old) - len(_after_header(old))]
    header: dict[str, Any] = {**content.front, **json.loads(json.dumps(HEADER))}
    if content.settings:
        header["nbkit"] = content.settings
    return f"---\n{yaml.safe_dump(header, sort_keys=False, allow_unicode=True)}---\n"


def _after_header(text: str) -> str:
    _, found, body = text[4:].partition("\n---\n")
    return body if text.startswith("---\n") and found else text
