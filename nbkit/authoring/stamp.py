"""The stamp of an executed page: what its outputs were made from, and what has changed since."""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any

from nbkit.authoring.clean import large_figures
from nbkit.authoring.errors import UserError
from nbkit.authoring.imports import ImportGraph, file_digest
from nbkit.authoring.page import KERNEL, Content, Page, content_of_notebook, digest, header_of
from nbkit.authoring.repository import chapter_number

# How a text page's header begins. Jupytext's own `formats` is not among it: it would overwrite the
# executed notebook whenever the text is saved in JupyterLab.
HEADER: dict[str, dict[str, Any]] = {
    "jupytext": {"text_representation": {"extension": ".md", "format_name": "myst"}},
    "kernelspec": dict(KERNEL),
}
VERSIONED = ("torch", "transformers", "numpy")
CHECK_MODULE = "nbkit.exercises.check"
CHAPTER_PREFIX = "nbkit.exercises.chapter_"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a file: what, and how to mend it."""

    file: str
    problem: str
    mend: str
    line: int | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.problem}; {self.mend}" if self.mend else f"{place}: {self.problem}"


def make_stamp(
    page: Page, content: Content, notebook: dict[str, Any], trace: dict[str, Any], seconds: float
) -> dict[str, Any]:
    """Describe what the outputs of a freshly executed page were made from.

    Args:
        page: the page.
        content: its text as it was executed.
        notebook: the cleaned notebook with its outputs.
        trace: `{"modules": [...], "reads": [...]}` as observed in the kernel.
        seconds: how long the cells took together.
    """
    graph = ImportGraph(page.root)
    modules = _all_modules(page, content, graph, trace)
    return {
        "text": content.text_digest,
        "code": content.code_digest,
        "outputs": outputs_digest(notebook),
        "modules": graph.digests(modules),
        "reads": _read_digests(page, content, trace["reads"]),
        "versions": _versions(),
        "seconds": round(seconds, 1),
    }


def source_files(page: Page, content: Content, trace: dict[str, Any]) -> list[Path]:
    """The files that a page's outputs were made from: modules of the package and files read."""
    graph = ImportGraph(page.root)
    modules = _all_modules(page, content, graph, trace)
    files = [path for name in sorted(modules) if (path := graph.file_of(name))]
    return files + [page.root / name for name in trace["reads"]]


def outputs_digest(notebook: dict[str, Any]) -> str:
    """SHA-256 of the outputs of every code cell, in order; line breaks in lists are joined."""
    return digest(
        [
            [_joined(output) for output in cell["outputs"]]
            for cell in notebook["cells"]
            if cell["cell_type"] == "code"
        ]
    )


def stored_stamp(notebook: dict[str, Any] | None) -> dict[str, Any] | None:
    """The stamp that a notebook holds; None where there is none."""
    if notebook is None:
        return None
    stamp = notebook["metadata"].get("nbkit", {}).get("stamp")
    return stamp if isinstance(stamp, dict) and "text" in stamp else None


def edited_side(page: Page) -> str:
    """Say which file of a pair was edited since the execution.

    Returns:
        "none", "text" (the .md), "notebook" (the .ipynb), or "both" (each in its own way). A
        notebook without a stamp counts as edited unless its cells are those of the text.
    """
    notebook = page.stored()
    if notebook is None:
        return "text"
    text = page.content().text_digest
    other = content_of_notebook(notebook, page.notebook_name).text_digest
    stamp = stored_stamp(notebook)
    if text == other:
        return "none" if stamp is not None and stamp["text"] == text else "text"
    if stamp is None:
        return "both"
    if other == stamp["text"]:
        return "text"
    return "notebook" if text == stamp["text"] else "both"


def changes(page: Page, content: Content, stamp: dict[str, Any]) -> list[str]:
    """Name what the outputs were made from and has changed since: code, modules, files read."""
    graph = ImportGraph(page.root)
    found = ["its code"] if content.code_digest != stamp["code"] else []
    needed = set(stamp["modules"]) | _modules(page, content, graph)
    now = graph.digests(name for name in needed if "/" not in name)
    found += [
        name for name in sorted(needed | set(now)) if now.get(name) != stamp["modules"].get(name)
    ]
    reads = _read_digests(page, content, [])
    for name in sorted(set(stamp["reads"]) | set(reads)):
        path = page.root / name
        if not path.is_file() or file_digest(path) != stamp["reads"].get(name):
            found.append(name)
    return found


def check_page(page: Page) -> list[Finding]:
    """Find everything that is wrong with a pair: missing, dirty, stale, or edited outputs."""
    try:
        return _check_pair(page)
    except UserError as error:
        return [Finding(page.name, str(error).removeprefix(f"{page.name}: "), "")]


def _check_pair(page: Page) -> list[Finding]:
    page.content()
    jupytext = header_of(page.text.read_text(encoding="utf-8"))["jupytext"] or {}
    wanted = HEADER["jupytext"]["text_representation"]
    if not wanted.items() <= jupytext.get("text_representation", {}).items():
        problem = "its header lacks `text_representation: {extension: .md, format_name: myst}`"
        return [Finding(page.name, problem, "write it under `jupytext`")]
    if "formats" in jupytext:
        problem = "its header pairs it by Jupytext's `formats` too"
        return [Finding(page.name, problem, "remove that line; `nbkit execute` does the pairing")]
    rerun = f"run `nbkit execute {page.name}`"
    notebook = page.stored()
    if notebook is None:
        return [Finding(page.name, "has never been executed", rerun)]
    stamp = stored_stamp(notebook)
    side = edited_side(page)
    sync = f"run `nbkit sync {page.name}` to take the edit into the text"
    if stamp is None:
        mend = rerun if side == "text" else sync
        return [Finding(page.notebook_name, "has no stamp: `nbkit execute` did not write it", mend)]
    if side == "notebook":
        return [Finding(page.notebook_name, "dirty pairing: the notebook was edited", sync)]
    if side == "both":
        problem = f"dirty pairing: both {page.name} and the notebook were edited"
        return [Finding(page.notebook_name, problem, f"run `nbkit sync {page.name}`")]
    found = []
    content = page.content()
    changed = changes(page, content, stamp)
    if changed:
        found.append(Finding(page.name, f"stale: {', '.join(changed)} changed", rerun))
    elif side == "text":
        found.append(Finding(page.name, "stale: its prose changed", rerun))
    if outputs_digest(notebook) != stamp["outputs"]:
        found.append(Finding(page.notebook_name, "its outputs were edited after execution", rerun))
    for number, size in large_figures(notebook):
        problem = f"a figure of code cell {number} has {size // 1000} kB; the most is 150 kB"
        found.append(Finding(page.notebook_name, problem, "draw it with fewer points or dots"))
    return found


def check_orphans(root: Path, pages: list[Page], notebooks: list[Path]) -> list[Finding]:
    """Find notebooks without a text page beside them."""
    known = {page.notebook for page in pages}
    return [
        Finding(
            path.relative_to(root).as_posix(),
            "has no text page beside it",
            "make one with `nbkit sync`, or delete the notebook",
        )
        for path in notebooks
        if path not in known
    ]


def _modules(page: Page, content: Content, graph: ImportGraph) -> set[str]:
    found = graph.closure(cell.source for cell in content.code_cells)
    number = chapter_number(page.text)
    if CHECK_MODULE in found and number is not None:
        # A check is found by its id, not by an import.
        found |= graph.closure([], also=[f"{CHAPTER_PREFIX}{number:02d}"])
    return found


def _all_modules(
    page: Page, content: Content, graph: ImportGraph, trace: dict[str, Any]
) -> set[str]:
    """What the code imports by its text, and what its kernel had imported in other ways.

    The registry of exercises loads those of every chapter; only the page's own count.
    """
    loaded = {name for name in trace["modules"] if not name.startswith(CHAPTER_PREFIX)}
    return _modules(page, content, graph) | loaded


def _read_digests(page: Page, content: Content, traced: list[str]) -> dict[str, str]:
    declared: set[str] = set()
    for pattern in content.settings.get("reads", []):
        paths = [path for path in page.root.glob(str(pattern)) if path.is_file()]
        if not paths:
            raise UserError(
                f"{page.name}: `nbkit: reads:` names {pattern!r}, and no such file exists; "
                "correct the name or make the file"
            )
        declared |= {path.relative_to(page.root).as_posix() for path in paths}
    return {name: file_digest(page.root / name) for name in sorted(declared | set(traced))}


def _versions() -> dict[str, str]:
    found = {"python": python_version()}
    for package in VERSIONED:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _joined(value: Any) -> Any:
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return "".join(value)
    if isinstance(value, list):
        return [_joined(item) for item in value]
    if isinstance(value, dict):
        return {key: _joined(item) for key, item in value.items()}
    return value
