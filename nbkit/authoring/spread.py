"""`nbkit spread`: runs pages under several roundings and stores what moved, and by how much."""

import json
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from nbkit.authoring.draws import draw_environment
from nbkit.authoring.environment import page_environment, python_command
from nbkit.authoring.errors import UserError
from nbkit.authoring.execute import RUNNER
from nbkit.authoring.jobs import Job, Outcome, run_jobs
from nbkit.authoring.measured import rounded, with_ranges
from nbkit.authoring.page import (
    Content,
    Page,
    content_of_notebook,
    notebook_of_content,
    notebook_text,
)
from nbkit.authoring.record import RecordMismatch, stored_records
from nbkit.authoring.repository import write_atomically
from nbkit.authoring.stamp import outputs_digest, stored_stamp
from nbkit.provenance import processor_name

VERSIONED = ("torch", "numpy", "transformers")
# Of processor time, for a page on one draw; without vector instructions all takes longer. The clock
# is never reached: run_page.py ends what computes too long, or not at all.
LIMIT_SECONDS = 1800.0
CLOCK_SECONDS = 14400.0
Say = Callable[[str], None]


@dataclass(frozen=True)
class Measured:
    """One page under several roundings: what to store, or why there is nothing to store."""

    page: Page
    draws: dict[str, Any] | None
    problems: tuple[str, ...] = ()


def measure(
    pages: list[Page],
    draws: list[str],
    *,
    workers: int,
    say: Say,
    done: Callable[[Measured], None],
) -> None:
    """Run pages under each draw in fresh kernels, their assertions measured.

    Args:
        pages: which pages; their texts are run, their notebooks left alone.
        draws: names in `DRAWS`.
        workers: how many kernels side by side; a page that is `exclusive` runs alone.
        say: prints one line of progress.
        done: called for each page when the last of its draws has ended.
    """
    contents = {page.name: page.content() for page in pages}
    jobs: list[Job] = []
    results: dict[str, Path] = {}
    with tempfile.TemporaryDirectory(prefix="nbkit-spread-") as folder:
        for number, page in enumerate(pages):
            source = Path(folder, f"{number}.ipynb")
            notebook = notebook_of_content(contents[page.name], key=page.name)
            source.write_text(json.dumps(notebook), encoding="utf-8")
            for draw in draws:
                name = _job_name(page, draw)
                results[name] = Path(folder, f"{number}-{draw}.json")
                jobs.append(_job(name, page, contents[page.name], source, results[name], draw))

        outcomes: dict[str, Outcome] = {}

        def finish(outcome: Outcome) -> None:
            say(f"{outcome.job.name}: ended after {outcome.seconds:.0f} s")
            outcomes[outcome.job.name] = outcome
            for page in pages:
                names = {_job_name(page, draw) for draw in draws}
                if outcome.job.name in names and names <= set(outcomes):
                    done(_measured(page, contents[page.name], draws, outcomes, results))

        run_jobs(
            jobs,
            workers,
            on_line=lambda job, line: say(f"{job.name}: {line}"),
            on_outcome=finish,
        )


def store(page: Page, draws: dict[str, Any]) -> None:
    """Add what was measured to a page's notebook, and the ranges to its recorded figures.

    Raises:
        UserError: as `storable`.
    """
    notebook = storable(page)
    said = content_of_notebook(notebook, page.notebook_name)
    notebook["metadata"]["nbkit"]["draws"] = draws
    with_ranges(notebook, draws)
    notebook["metadata"]["nbkit"]["stamp"]["outputs"] = outputs_digest(notebook)
    assert content_of_notebook(notebook, page.notebook_name) == said
    write_atomically(page.notebook, notebook_text(notebook))


def storable(page: Page) -> dict[str, Any]:
    """A page's executed notebook, if a measurement may be stored in it.

    Raises:
        UserError: the page has no executed notebook, or its outputs were edited.
    """
    notebook = page.stored()
    stamp = stored_stamp(notebook)
    if notebook is None or stamp is None:
        raise UserError(f"{page.name} has never been executed; run `nbkit execute {page.name}`")
    if outputs_digest(notebook) != stamp["outputs"]:
        raise UserError(
            f"{page.notebook_name}: its outputs were edited; run `nbkit execute {page.name}`"
        )
    return notebook


def _job_name(page: Page, draw: str) -> str:
    return f"{page.name} ({draw})"


def _job(name: str, page: Page, content: Content, source: Path, result: Path, draw: str) -> Job:
    files = (str(RUNNER), str(source), str(result), str(page.root), str(page.text.parent))
    return Job(
        name=name,
        command=python_command(*files, str(LIMIT_SECONDS), "--asserts"),
        folder=page.text.parent,
        environment=draw_environment(page_environment(page.root, page.text), draw),
        exclusive=bool(content.settings.get("exclusive")),
        limit_seconds=CLOCK_SECONDS,
    )


def _measured(
    page: Page,
    content: Content,
    draws: list[str],
    outcomes: dict[str, Outcome],
    results: dict[str, Path],
) -> Measured:
    problems, found = [], []
    for draw in draws:
        outcome = outcomes[_job_name(page, draw)]
        if not outcome.passed or not results[outcome.job.name].exists():
            tail = "\n".join(outcome.log.splitlines()[-10:])
            problems.append(f"{outcome.job.name} did not run\n{tail}")
            continue
        result = json.loads(results[outcome.job.name].read_text(encoding="utf-8"))
        if error := result["error"]:
            line = next((line for line in error["source"].splitlines() if line.strip()), "")
            problems.append(
                f"{outcome.job.name}: code cell {error['cell']} (`{line.strip()}`) stops it: "
                f"{error['name']}: {error['message']}"
            )
            continue
        found.append(result)
    if page.content() != content:
        problems.append(f"{page.name} changed while it ran; run `nbkit spread` on it again")
    if not problems:
        try:
            return Measured(page, summary(page, content, draws, found))
        except (UserError, RecordMismatch) as error:
            problems.append(str(error))
    return Measured(page, None, tuple(problems))


def summary(
    page: Page, content: Content, draws: list[str], results: list[dict[str, Any]]
) -> dict[str, Any]:
    """Put the results of a page's draws side by side, in the form that is stored.

    Args:
        page: the page.
        content: its text as it was run.
        draws: the names of the draws.
        results: what run_page.py returned for each of them.

    Raises:
        UserError: a figure is recorded on some draws only.
    """
    records = [stored_records(result["notebook"]) for result in results]
    names = list(dict.fromkeys(name for found in records for name in found))
    for name in names:
        missing = [draw for draw, found in zip(draws, records, strict=True) if name not in found]
        if missing:
            raise UserError(
                f"{page.name}: record {name!r} is missing on the draw {missing[0]}; "
                "record the same figures whatever the run gives"
            )
    notes = [{(one["cell"], one["text"]): one for one in result["asserts"]} for result in results]
    keys = sorted({key for found in notes for key in found}, key=lambda key: key[0])
    asserts = []
    for cell, text in keys:
        ran = [found.get((cell, text), {}) for found in notes]
        slack = rounded([one.get("slack") for one in ran])
        asserts.append(
            {
                "cell": cell,
                "text": text,
                "slack": slack if any(value is not None for value in slack) else None,
                "holds": [one.get("holds") for one in ran],
            }
        )
    return {
        "measured": datetime.now(UTC).date().isoformat(),
        "commit": _commit(page.root),
        "code": content.code_digest,
        "processor": processor_name(),
        "versions": _versions(),
        "draws": draws,
        "processor_seconds": [round(result["processor_seconds"], 1) for result in results],
        "records": {name: rounded([found[name]["value"] for found in records]) for name in names},
        "asserts": asserts,
    }


def _commit(root: Path) -> str:
    words = ["git", "-C", str(root), "rev-parse", "HEAD"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def _versions() -> dict[str, str]:
    found = {}
    for package in VERSIONED:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
