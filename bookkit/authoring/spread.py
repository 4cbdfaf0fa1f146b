"""`nbkit spread`: runs pages under several roundings and stores what moved, and by how much."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bookkit.authoring.draws import draw_environment
from bookkit.authoring.environment import page_environment, python_command
from bookkit.authoring.execute import RUNNER
from bookkit.authoring.jobs import Job, Outcome, run_jobs
from bookkit.authoring.measured import with_ranges
from bookkit.authoring.notebook_file import notebook_text
from bookkit.authoring.page import Content, Page, content_of_notebook, notebook_of_content
from bookkit.authoring.reach.ran import Note, read_notes
from bookkit.authoring.record import RecordMismatch
from bookkit.authoring.repository import write_atomically
from bookkit.authoring.spread_summary import summary
from bookkit.authoring.stamp import draws_digest, outputs_digest, stored_stamp
from nbkit.errors import UserError

# Of processor time, for a page on one draw; without vector instructions all takes longer. The clock
# is never reached: run_page.py ends what computes too long, or not at all.
LIMIT_SECONDS = 1800.0
CLOCK_SECONDS = 14400.0
LOG_LINES = 10
Say = Callable[[str], None]


@dataclass(frozen=True)
class Measured:
    """One page under several roundings: what to store, or why there is nothing to store."""

    page: Page
    draws: dict[str, Any] | None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Work:
    """One page whose draws are run, and the folder for its files meanwhile."""

    page: Page
    content: Content
    draws: list[str]
    folder: Path

    def name(self, draw: str) -> str:
        return f"{self.page.name} ({draw})"

    def result(self, draw: str) -> Path:
        return self.folder / f"{draw}.json"

    def jobs(self) -> list[Job]:
        """One job a draw; the last one also notes which functions run, which takes a while."""
        page, source, ran = self.page, self.folder / "page.ipynb", self.folder / "ran"
        ran.mkdir(parents=True)
        notebook = notebook_of_content(self.content, key=page.name)
        source.write_text(json.dumps(notebook), encoding="utf-8")
        noting = {"NBKIT_RAN": str(ran), "NBKIT_RAN_ROOT": str(page.root)}
        jobs = []
        for draw in self.draws:
            environment = draw_environment(page_environment(page.root, page.text), draw)
            environment["NBKIT_ASSERTS"] = "1"  # for functions that are sent to child processes
            # The compiler's cache does not know for which instructions its code was made.
            environment["TORCHINDUCTOR_CACHE_DIR"] = str(self.folder / f"{draw}.inductor")
            files = (source, self.result(draw), page.root, page.text.parent)
            jobs.append(
                Job(
                    name=self.name(draw),
                    command=python_command(
                        str(RUNNER), *map(str, files), str(LIMIT_SECONDS), "--asserts"
                    ),
                    folder=page.text.parent,
                    environment=environment | (noting if draw == self.draws[-1] else {}),
                    exclusive=bool(self.content.settings.get("exclusive")),
                    limit_seconds=CLOCK_SECONDS,
                )
            )
        return jobs

    def notes(self) -> list[Note]:
        return read_notes(self.folder / "ran")


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
    with tempfile.TemporaryDirectory(prefix="nbkit-spread-") as folder:
        works = [
            _Work(page, page.content(), draws, Path(folder, str(number)))
            for number, page in enumerate(pages)
        ]
        outcomes: dict[str, Outcome] = {}

        def finish(outcome: Outcome) -> None:
            say(f"{outcome.job.name}: ended after {outcome.seconds:.0f} s")
            outcomes[outcome.job.name] = outcome
            for work in works:
                names = {work.name(draw) for draw in draws}
                if outcome.job.name in names and names <= set(outcomes):
                    done(_measured(work, outcomes))

        run_jobs(
            [job for work in works for job in work.jobs()],
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
    stamp = notebook["metadata"]["nbkit"]["stamp"]
    stamp |= {"outputs": outputs_digest(notebook), "draws": draws_digest(notebook)}
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


def _measured(work: _Work, outcomes: dict[str, Outcome]) -> Measured:
    page, problems, results = work.page, [], []
    for draw in work.draws:
        result, problem = _result(work, draw, outcomes[work.name(draw)])
        results.append(result)
        if problem:
            problems.append(problem)
    now = page.content()  # its prose may have been edited meanwhile
    if now.code_digest != work.content.code_digest:
        problems.append(f"{page.name} changed while it ran; run `nbkit spread` on it again")
    if not problems:
        try:
            found = summary(page, now, work.draws, results, work.notes())
            return Measured(page, found)
        except (UserError, RecordMismatch) as error:
            problems.append(str(error))
    return Measured(page, None, tuple(problems))


def _result(work: _Work, draw: str, outcome: Outcome) -> tuple[dict[str, Any], str]:
    """What run_page.py returned for one draw, and a sentence where the page did not end well."""
    if not outcome.passed or not work.result(draw).exists():
        tail = "\n".join(outcome.log.splitlines()[-LOG_LINES:])
        return {}, f"{outcome.job.name}: did not run\n{tail}"
    result = json.loads(work.result(draw).read_text(encoding="utf-8"))
    error = result["error"]
    if error is None:
        return result, ""
    line = next((line for line in error["source"].splitlines() if line.strip()), "")
    return result, (
        f"{outcome.job.name}: code cell {error['cell']} (`{line.strip()}`) stops it: "
        f"{error['name']}: {error['message']}"
    )
