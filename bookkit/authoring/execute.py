"""`nbkit execute`: reruns stale pages in fresh kernels and stores their outputs beside the text."""

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bookkit.authoring.clean import clean_outputs
from bookkit.authoring.environment import page_environment, python_command
from bookkit.authoring.jobs import Job, Outcome, run_jobs
from bookkit.authoring.measured import stored_draws, with_ranges
from bookkit.authoring.notebook_file import notebook_text
from bookkit.authoring.page import Content, Page, notebook_of_content, shows_what_is_written
from bookkit.authoring.record import RecordMismatch, stored_records
from bookkit.authoring.repository import write_atomically
from bookkit.authoring.stamp import (
    changes,
    edited_side,
    make_stamp,
    outputs_digest,
    source_files,
    stored_stamp,
)
from nbkit.errors import UserError

RUNNER = Path(__file__).with_name("run_page.py")
PAGE_SECONDS = 7200.0  # of the clock; run_page.py ends what computes too long, or not at all
TRACEBACK_LINES = 30
Say = Callable[[str], None]


@dataclass(frozen=True)
class Report:
    """What became of one page: "fresh", "paired" (its code runs as before), "run" or "failed"."""

    page: Page
    state: str
    seconds: float = 0.0
    message: str = ""


def execute(pages: list[Page], *, force: bool, workers: int, say: Say) -> list[Report]:
    """Bring pages up to date.

    A page whose code, modules and files are unchanged is not rerun: if its prose changed, or the
    form of its code, the notebook gets the new text and keeps its outputs. A page that fails keeps
    its old notebook.

    Args:
        pages: which pages.
        force: rerun even what is fresh.
        workers: how many kernels side by side.
        say: prints one line of progress.

    Raises:
        UserError: a notebook holds edits that its text does not; nothing has been run then.
    """
    _refuse_dirty(pages)
    reports = {}
    stale = []
    for page in pages:
        state = "stale" if force else _freshness(page)
        if state == "prose":
            _pair(page)
            say(f"{page.name}: what runs has not changed; its outputs are kept")
            reports[page.name] = Report(page, "paired")
        elif state == "fresh":
            reports[page.name] = Report(page, "fresh")
        else:
            stale.append(page)
    for report in _run(stale, workers, say):
        reports[report.page.name] = report
    return [reports[page.name] for page in pages]


def _refuse_dirty(pages: list[Page]) -> None:
    dirty = [page.notebook_name for page in pages if edited_side(page) in {"notebook", "both"}]
    if dirty:
        holds = "holds edits that its text does not" if len(dirty) == 1 else "hold unsynced edits"
        raise UserError(
            f"{', '.join(dirty)} {holds}; run `nbkit sync` first, so that nothing is lost"
        )


def _freshness(page: Page) -> str:
    notebook = page.stored()
    stamp = stored_stamp(notebook)
    if notebook is None or stamp is None:
        return "stale"
    content = page.content()
    if changes(page, content, stamp) or outputs_digest(notebook) != stamp["outputs"]:
        return "stale"
    if not shows_what_is_written(notebook, content, page.macros()):
        return "prose"
    return "fresh" if content.text_digest == stamp["text"] else "prose"


def _pair(page: Page) -> None:
    """Give a notebook the new prose of its page and keep the outputs of its unchanged code."""
    notebook = page.stored()
    stamp = stored_stamp(notebook)
    assert notebook is not None and stamp is not None
    content = page.content()
    outputs = [
        cell["outputs"]
        for cell in notebook["cells"]
        if cell["cell_type"] == "code" and "".join(cell["source"]).strip()
    ]
    _store(page, content, outputs, lambda _: stamp | {"text": content.text_digest})


def _run(pages: list[Page], workers: int, say: Say) -> list[Report]:
    if not pages:
        return []
    with tempfile.TemporaryDirectory(prefix="nbkit-execute-") as folder:
        contents = {page.name: page.content() for page in pages}
        jobs, results = {}, {}
        for number, page in enumerate(pages):
            source, result = (Path(folder, f"{number}.{kind}") for kind in ("ipynb", "json"))
            content = contents[page.name]
            source.write_text(
                json.dumps(notebook_of_content(content, key=page.name)), encoding="utf-8"
            )
            jobs[page.name] = _job(page, content, source, result)
            results[page.name] = result
        reports = {}
        began = time.time()

        def finish(outcome: Outcome) -> None:
            page = next(page for page in pages if page.name == outcome.job.name)
            report = _finish(page, contents[page.name], outcome, results[page.name], began)
            reports[page.name] = report
            if report.state == "run":
                say(f"{page.name}: done, {report.seconds:.1f} s of cells")
                for line in report.message.splitlines():
                    say(f"  {line}")
            else:
                say(report.message)

        for page in pages:
            say(f"{page.name}: to be run")
        run_jobs(
            list(jobs.values()),
            workers,
            on_line=lambda job, line: say(f"{job.name}: {line}"),
            on_outcome=finish,
        )
    return [reports[page.name] for page in pages]


def _job(page: Page, content: Content, source: Path, result: Path) -> Job:
    return Job(
        name=page.name,
        command=python_command(
            str(RUNNER),
            str(source),
            str(result),
            str(page.root),
            str(page.text.parent),
        ),
        folder=page.text.parent,
        environment=page_environment(page.root, page.text),
        exclusive=bool(content.settings.get("exclusive")),
        limit_seconds=PAGE_SECONDS,
    )


def _finish(
    page: Page, content: Content, outcome: Outcome, result_file: Path, began: float
) -> Report:
    if not outcome.passed or not result_file.exists():
        tail = "\n".join(outcome.log.splitlines()[-TRACEBACK_LINES:])
        return Report(page, "failed", outcome.seconds, f"{page.name}: did not run\n{tail}")
    result = json.loads(result_file.read_text(encoding="utf-8"))
    error = result["error"]
    if error is not None:
        return Report(page, "failed", result["seconds"], _failure(page, error))
    edited = [page.name] if page.content() != content else []
    edited += [
        path.relative_to(page.root).as_posix()
        for path in source_files(page, content, result["trace"])
        if path.stat().st_mtime > began
    ]
    if edited:
        names = ", ".join(edited)
        message = f"{page.name}: {names} changed while it ran; run `nbkit execute` on it again"
        return Report(page, "failed", result["seconds"], message)
    outputs = [
        clean_outputs(cell["outputs"])
        for cell in result["notebook"]["cells"]
        if cell["cell_type"] == "code"
    ]
    before = page.stored()
    try:
        notebook = _store(
            page,
            content,
            outputs,
            lambda made: make_stamp(page, content, made, result),
        )
    except RecordMismatch as problem:
        return Report(page, "failed", result["seconds"], f"{page.name}: {problem}")
    return Report(page, "run", result["seconds"], _moved(before, notebook))


def _store(
    page: Page,
    content: Content,
    outputs: list[list[dict[str, Any]]],
    stamp: Callable[[dict[str, Any]], dict[str, Any]],
) -> dict[str, Any]:
    notebook = notebook_of_content(content, key=page.name, macros=page.macros())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for cell, cell_outputs in zip(code, outputs, strict=True):
        cell["outputs"] = cell_outputs
    stored_records(notebook)
    own = notebook["metadata"].setdefault("nbkit", {})
    # What was measured under several roundings stays until it is measured again.
    draws = stored_draws(page.stored() or {"metadata": {}})
    if draws is not None:
        own["draws"] = draws
        with_ranges(notebook, draws)
    own["stamp"] = stamp(notebook)
    write_atomically(page.notebook, notebook_text(notebook))
    return notebook


def _failure(page: Page, error: dict[str, Any]) -> str:
    first = next((line for line in error["source"].splitlines() if line.strip()), "")
    lines = error["traceback"].rstrip().splitlines()[-TRACEBACK_LINES:]
    kept = f"; {page.notebook_name} is as it was" if page.notebook.exists() else ""
    return (
        "\n".join(f"    {line}" for line in lines)
        + f"\n{page.name}: code cell {error['cell']} (`{first.strip()}`) failed: "
        f"{error['name']}: {error['message']}{kept}"
    )


def _moved(before: dict[str, Any] | None, after: dict[str, Any]) -> str:
    """Name the key figures that the new run moved by more than their tolerance."""
    if before is None:
        return ""
    try:
        old = stored_records(before)
    except RecordMismatch:
        return ""
    lines = []
    for name, entry in stored_records(after).items():
        value = old[name]["value"] if name in old else entry["value"]
        if abs(entry["value"] - value) > entry["tol"]:
            lines.append(
                f"key figure {name!r} moved from {value:.6g} to {entry['value']:.6g} "
                f"(tolerance {entry['tol']:g}): does the prose still hold?"
            )
    return "\n".join(lines)
