"""How JupyterLab shows a page: what only the book's own site understands is put in other words.

JupyterLab's MyST knows neither our macros nor our bibliography, and runs a list of definitions
into one line. So a citation becomes names, year and a link, and the run card a list. Each cell
carries what its author wrote, which a save puts back.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bookkit.authoring.citations import Work, works_of
from bookkit.authoring.macros import macros_of, show_in, written_in, written_out
from bookkit.authoring.notebook_file import join
from bookkit.authoring.page import KERNEL

_CITATION = re.compile(r"\{cite(?P<kind>:[a-z]+)?\}`(?P<keys>[^`]+)`")
_RUN_CARD = re.compile(r"^(?P<fence>:{3,})\{admonition\}[^\n]*\n:class: run-card\n", re.MULTILINE)
_TERM = re.compile(r"^(?P<term>[^\n:][^\n]*)\n: +(?P<text>[^\n]*)$", re.MULTILINE)
FRONT_MATTER = "front-matter"


def lab_text(text: str, macros: Mapping[str, str], works: Mapping[str, Work]) -> str:
    """A cell's Markdown as JupyterLab is to show it."""
    text = _CITATION.sub(lambda found: _cited(found, works), written_out(text, macros))
    card = _RUN_CARD.search(text)
    if card is None:
        return text
    end = text.find(f"\n{card['fence']}\n", card.end())
    end = len(text) if end < 0 else end
    listed = _TERM.sub(r"- **\g<term>**: \g<text>", text[card.end() : end])
    return f"{text[: card.end()]}\n{listed}{text[end:]}"


def _cited(found: re.Match[str], works: Mapping[str, Work]) -> str:
    keys = [key.strip() for key in found["keys"].split(",")]
    if any(key not in works for key in keys):
        return found.group()  # a mistake of the text stays in sight
    if found["kind"] == ":t":
        named = [_linked(works[key], f"{works[key].names} ({works[key].year})") for key in keys]
        return ", ".join(named)
    named = [_linked(works[key], f"{works[key].names}, {works[key].year}") for key in keys]
    return f"({'; '.join(named)})"


def _linked(work: Work, words: str) -> str:
    return f"[{words}]({work.address})" if work.address else words


def show(notebook: dict[str, Any], root: Path) -> None:
    """Put JupyterLab's words into the Markdown cells of a notebook that was read."""
    macros, works = macros_of(root), works_of(root)
    for cell in notebook["cells"]:
        if cell["cell_type"] != "markdown" or cell["metadata"].get("nbkit") == FRONT_MATTER:
            continue
        cell["source"], cell["metadata"] = written_in(join(cell["source"]), cell["metadata"])
        show_in(cell, lab_text(cell["source"], macros, works))


def as_the_kernel_says(notebook: dict[str, Any]) -> None:
    """Put in what JupyterLab writes into a notebook when its kernel starts.

    Else it would write that, and mark every notebook as edited that was only opened.
    """
    from ipykernel.ipkernel import IPythonKernel
    from jupyter_client.kernelspec import KernelSpecManager

    spec = KernelSpecManager().get_kernel_spec(KERNEL["name"])
    kernel = {"display_name": spec.display_name, "language": spec.language, "name": KERNEL["name"]}
    notebook["metadata"]["kernelspec"] = kernel
    info = dict(IPythonKernel.language_info)
    notebook["metadata"]["language_info"] = json.loads(json.dumps(info))


def restore(notebook: dict[str, Any]) -> None:
    """Put the author's words back into the cells that nobody edited since `show`."""
    for cell in notebook["cells"]:
        cell["metadata"].pop("trusted", None)
        if cell["cell_type"] == "markdown" and isinstance(cell["metadata"].get("nbkit"), dict):
            cell["source"], cell["metadata"] = written_in(join(cell["source"]), cell["metadata"])


def store(notebook: dict[str, Any], root: Path) -> None:
    """After `restore`: bring the cells into the form of a stored notebook, macros written out."""
    macros = macros_of(root)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = join(cell["source"])
            show_in(cell, written_out(cell["source"], macros))
