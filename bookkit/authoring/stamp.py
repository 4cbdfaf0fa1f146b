"""The stamp of an executed page: what its outputs were made from, and what has changed since."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bookkit.authoring.clean import large_figures
from bookkit.authoring.measured import spread_findings, stored_draws
from bookkit.authoring.output_digests import draws_digest, outputs_digest
from bookkit.authoring.page import (
    KERNEL,
    Content,
    Page,
    content_of_notebook,
    header_of,
    shows_what_is_written,
)
from bookkit.authoring.proof import aged, installed_versions, proof_context
from bookkit.authoring.reach import Finder, Reach
from bookkit.authoring.reach.digests import file_digest
from bookkit.authoring.reach.ran import missed
from bookkit.authoring.reach.sources import PACKAGES
from nbkit.errors import UserError

# How a text page's header begins. Jupytext's own `formats` is not among it: it would overwrite the
# executed notebook whenever the text is saved in JupyterLab.
HEADER: dict[str, dict[str, Any]] = {
    "jupytext": {"text_representation": {"extension": ".md", "format_name": "myst"}},
    "kernelspec": dict(KERNEL),
}
# What a chapter's live cells may cost. Counted in processor time, so that a loaded machine changes
# nothing; checked where it was measured, on the author's machine.
LIVE_SECONDS = 90.0
NAMED = 4  # symbols that a message names; the rest is counted


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
    page: Page, content: Content, notebook: dict[str, Any], result: Mapping[str, Any]
) -> dict[str, Any]:
    """Describe what the outputs of a freshly executed page were made from.

    Files are observed in the kernel; what only its child processes or compiled code read, the page
    names under `reads`. Files outside the checkout and variables of the environment do not count.

    Args:
        page: the page.
        content: its text as it was executed.
        notebook: the cleaned notebook with its outputs.
        result: of `run_page.py`: "trace" (`{"reads": [...]}` as observed in the kernel), "seconds"
            (of the clock) and "processor_seconds" of the cells together.
    """
    reach = page_reach(page.root, content)
    return {
        "text": content.text_digest,
        "code": content.code_digest,
        "outputs": outputs_digest(notebook),
        "draws": draws_digest(notebook),
        "reach": reach.symbols,
        "reads": _read_digests(page, content, reach, result["trace"]["reads"]),
        "seconds": round(result["seconds"], 1),
        "processor_seconds": round(result["processor_seconds"], 1),
        **proof_context(page.root),
    }


def page_reach(root: Path, content: Content) -> Reach:
    """Everything of the checkout that a page's cells can come to."""
    return finder_of(root).reach(sources=[cell.source for cell in content.code_cells])


@cache
def finder_of(root: Path) -> Finder:
    """The finder of a checkout, which reads each module once in the life of a process."""
    return Finder(root)


def source_files(page: Page, content: Content, trace: dict[str, Any]) -> list[Path]:
    """The files that a page's outputs were made from: modules of the package and files read."""
    finder = finder_of(page.root)
    modules = sorted(page_reach(page.root, content).modules)
    files = [path for name in modules if (path := finder.file_of(name))]
    return files + [page.root / name for name in trace["reads"]]


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
    """Name what the outputs were made from and has changed since: code, symbols, files read."""
    if "reach" not in stamp:
        return ["the form of its stamp"]
    reach = page_reach(page.root, content)
    found = ["its code"] if content.code_digest != stamp["code"] else []
    found += named_changes(stamp["reach"], reach.symbols)
    reads = _read_digests(page, content, reach, [])
    for name in sorted(set(stamp["reads"]) | set(reads)):
        path = page.root / name
        if not path.is_file() or file_digest(path) != stamp["reads"].get(name):
            found.append(name)
    return found


def named_changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Name the symbols whose digests differ, a few of them and the number of the others.

    What has come or gone follows from a change elsewhere and is named only where nothing else is.
    """
    changed = sorted(name for name in before.keys() & now.keys() if before[name] != now[name])
    changed = changed or sorted(before.keys() ^ now.keys())
    rest = len(changed) - NAMED
    return changed if rest <= 0 else [*changed[:NAMED], f"{rest} more"]


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
        found.append(Finding(page.name, "stale: its prose or the form of its code changed", rerun))
    elif not shows_what_is_written(notebook, content, page.macros()):
        problem = "its formulas are not the text's with every macro of myst.yml written out"
        found.append(Finding(page.notebook_name, problem, rerun))
    if outputs_digest(notebook) != stamp["outputs"]:
        found.append(Finding(page.notebook_name, "its outputs were edited after execution", rerun))
    if "draws" in stamp and draws_digest(notebook) != stamp["draws"]:
        problem = "what was measured of it under several roundings was edited"
        mend = f"run `nbkit spread {page.name}`"
        found.append(Finding(page.notebook_name, problem, mend))
    found += _proof_findings(page, content, notebook, stamp)
    for number, size in large_figures(notebook):
        problem = f"a figure of code cell {number} has {size // 1000} kB; the most is 150 kB"
        found.append(Finding(page.notebook_name, problem, "draw it with fewer points or dots"))
    return found


def age(page: Page) -> list[str]:
    """Say which versions of libraries have changed since a page was executed; none: not old."""
    stamp = stored_stamp(page.stored())
    return aged(stamp["versions"], installed_versions()) if stamp else []


def processors(pages: list[Page]) -> Counter[str]:
    """On which processors pages were executed, and how many on each."""
    stamps = [stored_stamp(page.stored()) for page in pages]
    return Counter(stamp["processor"] for stamp in stamps if stamp and "processor" in stamp)


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


def _proof_findings(
    page: Page, content: Content, notebook: dict[str, Any], stamp: dict[str, Any]
) -> list[Finding]:
    """What the measurements of a page say against it: roundings, reach, processor time."""
    found = [
        Finding(page.name, *finding) for finding in spread_findings(page.name, notebook, content)
    ]
    ran = (stored_draws(notebook) or {}).get("ran", [])
    unknown = missed(finder_of(page.root), page_reach(page.root, content), ran)
    if unknown and content.code_digest == stamp["code"]:
        problem = f"ran {', '.join(unknown[:NAMED])}, which the finder does not see it reach"
        mend = "mend bookkit/authoring/reach, or name it in a cell"
        found.append(Finding(page.name, problem, mend))
    # Work beside a run only adds to it, so the quickest of the page's runs counts.
    draws = (stored_draws(notebook) or {}).get("processor_seconds", [])
    seconds = min([stamp.get("processor_seconds", 0.0), *draws])
    if page.text.parent.name == "notebooks" and seconds > LIVE_SECONDS:
        problem = f"its cells took {seconds:.0f} s of processor time, over {LIVE_SECONDS:.0f} s"
        found.append(Finding(page.name, problem, "make them shorter, or a study of them"))
    return found


def _read_digests(page: Page, content: Content, reach: Reach, traced: list[str]) -> dict[str, str]:
    """Digests of files: declared, observed, and the data that lie beside the modules reached."""
    declared: set[str] = set()
    for pattern in content.settings.get("reads", []):
        paths = [path for path in page.root.glob(str(pattern)) if path.is_file()]
        if not paths:
            raise UserError(
                f"{page.name}: `nbkit: reads:` names {pattern!r}, and no such file exists; "
                "correct the name or make the file"
            )
        declared |= {path.relative_to(page.root).as_posix() for path in paths}
    beside = {
        path.relative_to(page.root).as_posix() for path in data_beside(page.root, reach.modules)
    }
    return {name: file_digest(page.root / name) for name in sorted(declared | beside | set(traced))}


def data_beside(root: Path, modules: set[str]) -> set[Path]:
    """The files that are not Python and lie beside some modules of the package."""
    finder = finder_of(root)
    folders = {path.parent for name in modules if (path := finder.file_of(name))}
    return {
        path
        for folder in folders
        if any(folder.is_relative_to(root / package) for package in PACKAGES)
        for path in folder.iterdir()
        if path.is_file() and path.suffix not in {".py", ".pyc", ".pyi"}
    }
