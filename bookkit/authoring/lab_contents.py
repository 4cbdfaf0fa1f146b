"""The files of the book as `make lab` serves them: shown as Lab understands, saved as written.

A save without an edit changes no file, and a save with one changes only what was edited: JavaScript
writes 3.0 as 3, and Jupytext sets a text page in its own way, which would make every opened page
look edited.
"""

import json
import os
from pathlib import Path
from typing import Any

from bookkit.authoring.lab import TEXTS
from bookkit.authoring.lab_view import as_the_kernel_says, restore, show, store
from bookkit.authoring.macros import written_in
from bookkit.authoring.notebook_file import join, notebook_text
from bookkit.authoring.page import (
    TEXT_FORMAT,
    VOLATILE_CELL_KEYS,
    content_of_notebook,
    content_of_text,
)
from bookkit.authoring.quick import jupytext, nbformat
from bookkit.authoring.repository import PAGE_FOLDERS, write_atomically
from bookkit.authoring.smallest_edit import smallest_edit
from bookkit.authoring.sync import text_of_notebook
from nbkit.errors import UserError

NOT_MEANT = ("kernelspec", "language_info", "widgets")


class BookContents(jupytext.TextFileContentsManager):
    """Jupytext's contents manager with the book's view of its pages."""

    def get(self, path: str, content: bool = True, **options: Any) -> dict[str, Any]:
        """Read a file or folder, as Jupyter's contents managers do."""
        model: dict[str, Any] = super().get(path, content=content, **options)
        if not content or model["content"] is None:
            return model
        if model["type"] == "directory":
            model["content"] = [item for item in model["content"] if not self._is_twin(item)]
        elif model["type"] == "notebook":
            show(model["content"], Path(self.root_dir))
            as_the_kernel_says(model["content"])
        return model

    def save(self, model: dict[str, Any], path: str = "") -> dict[str, Any]:
        """Write a file, as Jupyter's contents managers do; a notebook only where it was edited."""
        file = Path(self.root_dir, path.strip("/"))
        if model.get("type") != "notebook" or "content" not in model or not file.is_file():
            return dict(super().save(model, path))
        notebook = json.loads(json.dumps(model["content"]))
        restore(notebook)
        self.run_pre_save_hooks(model={**model, "content": notebook}, path=path)
        if file.suffix == ".ipynb":
            store(notebook, Path(self.root_dir))
            text = edited_notebook(file.read_text(encoding="utf-8"), notebook)
        elif file.suffix == ".md" and self._is_page(file):
            text = edited_page(file.read_text(encoding="utf-8"), notebook, path)
        else:
            return dict(super().save({**model, "content": nbformat.from_dict(notebook)}, path))
        if text is not None:
            write_atomically(file, text)
        return dict(super().get(path, content=False))

    def _is_page(self, file: Path) -> bool:
        try:
            content_of_text(file.read_text(encoding="utf-8"), file.name)
        except UserError:
            return False
        return True

    def _is_twin(self, item: dict[str, Any]) -> bool:
        """Whether a text page has its executed notebook beside it, which is shown in its place."""
        path = Path(self.root_dir, item["path"])
        in_pages = path.relative_to(self.root_dir).parts[0] in PAGE_FOLDERS
        hides = in_pages and path.suffix == ".md" and not os.environ.get(TEXTS)
        return hides and path.with_suffix(".ipynb").is_file()


def edited_page(old: str, notebook: dict[str, Any], name: str) -> str | None:
    """The text of a page after an edit in its notebook; None if nothing was edited.

    Raises:
        UserError: a cell holds what no text page can.
    """
    content = content_of_notebook(notebook, name)
    if content == content_of_text(old, name):
        return None
    unedited = json.loads(json.dumps(jupytext.reads(old, fmt=TEXT_FORMAT)))
    after = text_of_notebook(notebook, old, name)
    text = smallest_edit(old, text_of_notebook(unedited, old, name), after)
    return text if content_of_text(text, name) == content else after


def edited_notebook(old: str, notebook: dict[str, Any]) -> str | None:
    """The file of a notebook after an edit; None if nothing was edited.

    What is equal but for the form of its numbers stays as it was.
    """
    stored = json.loads(old)
    known = {cell.get("id"): cell for cell in stored["cells"]}
    cells = [_kept(known.get(cell.get("id")), cell) for cell in notebook["cells"]]
    metadata = {key: value for key, value in notebook["metadata"].items() if key not in NOT_MEANT}
    there = stored["metadata"]
    metadata |= {key: there[key] for key in (*NOT_MEANT, "nbkit") if key in there}
    if cells == stored["cells"] and metadata == there:
        return None
    return notebook_text({**notebook, "cells": cells, "metadata": metadata})


def _kept(before: dict[str, Any] | None, after: dict[str, Any]) -> dict[str, Any]:
    """The stored cell where the saved one says the same, else the saved one."""
    return before if before is not None and _said(before) == _said(after) else after


def _said(cell: dict[str, Any]) -> list[Any]:
    """What a cell says, by which two are compared: texts joined, editors' leavings left out."""
    made = json.loads(notebook_text({"cells": [cell]}))["cells"][0]
    source, metadata = written_in(join(made["source"]), made["metadata"])
    own = {key: value for key, value in metadata.items() if key not in VOLATILE_CELL_KEYS}
    outputs = [{**output, "execution_count": None} for output in made.get("outputs", [])]
    return [made["cell_type"], source, outputs, own, made.get("attachments") or {}]
