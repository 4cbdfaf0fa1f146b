"""Runs the items of the suite, tells what finishes as it does, and ends with a table of times."""

import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from nbkit.authoring.errors import UserError
from nbkit.authoring.jobs import Job, Outcome, run_jobs
from nbkit.authoring.suite.items import KINDS, Item, Verdict, judge, make_items

LIMIT_SECONDS = 45 * 60
TAIL_LINES = 60
TABLE_WIDTH = 110


def run_suite(
    root: Path,
    *,
    chapter: int | None = None,
    kinds: tuple[str, ...] = KINDS,
    workers: int = 2,
    limit_seconds: float = LIMIT_SECONDS,
) -> bool:
    """Run the suite and print how it went.

    Args:
        root: the checkout.
        chapter: only what belongs to this chapter; None for everything.
        kinds: which kinds of items.
        workers: how many notebooks side by side.
        limit_seconds: over this the whole fails.

    Returns:
        Whether everything passed, within the limit. The last line printed is `N passed, N failed`.

    Raises:
        UserError: there is nothing to run.
    """
    console = Console(width=TABLE_WIDTH, highlight=False, markup=False, soft_wrap=True)
    began = time.monotonic()
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory(prefix="nbkit-test-") as folder:
        items = make_items(root, Path(folder), chapter, kinds)
        if not items:
            raise UserError(f"nothing belongs to chapter {chapter}; look at the numbers of pages")
        console.print(f"{len(items)} items")
        for part in _parts(items):
            verdicts += _run_part(part, workers, console)
    seconds = time.monotonic() - began
    return _summary(console, verdicts, seconds, limit_seconds)


def _parts(items: list[Item]) -> list[list[Item]]:
    """Checks; then the unit tests, which use both processors themselves; then everything else."""
    return [
        [item for item in items if item.kind == "checks"],
        [item for item in items if item.kind == "unit"],
        [item for item in items if item.kind not in {"checks", "unit"}],
    ]


def _run_part(items: list[Item], workers: int, console: Console) -> list[Verdict]:
    by_name = {item.job.name: item for item in items}
    verdicts: dict[str, Verdict] = {}

    def tell(job: Job, line: str) -> None:
        if by_name[job.name].kind == "unit":
            console.print(line)

    def finish(outcome: Outcome) -> None:
        verdict = judge(by_name[outcome.job.name], outcome)
        verdicts[outcome.job.name] = verdict
        mark = "✗" if verdict.failed else "✓"
        remark = f" ({verdict.remark})" if verdict.remark else ""
        console.print(f"{mark} {outcome.job.name}, {verdict.seconds:.1f} s{remark}")
        if verdict.failed and verdict.item.kind != "unit":
            for line in verdict.log.splitlines()[-TAIL_LINES:]:
                console.print(f"  | {line}")

    run_jobs([item.job for item in items], workers, on_line=tell, on_outcome=finish)
    return [verdicts[item.job.name] for item in items]


def _summary(
    console: Console, verdicts: list[Verdict], seconds: float, limit_seconds: float
) -> bool:
    passed = sum(verdict.passed for verdict in verdicts)
    failed = sum(verdict.failed for verdict in verdicts)
    table = Table(title="Times", title_justify="left", width=TABLE_WIDTH)
    for heading in ("what", "passed", "failed", "seconds", "remark"):
        right = heading in {"passed", "failed", "seconds"}
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    for verdict in sorted(verdicts, key=lambda v: (KINDS.index(v.item.kind), -v.seconds)):
        table.add_row(
            verdict.item.job.name,
            str(verdict.passed),
            str(verdict.failed),
            f"{verdict.seconds:.1f}",
            verdict.remark,
        )
    table.add_row("all, two side by side", str(passed), str(failed), f"{seconds:.1f}", "")
    console.print(table)
    for verdict in verdicts:
        if verdict.failed:
            console.print(f"failed: {verdict.item.job.name}")
    if seconds > limit_seconds:
        console.print(f"failed: the whole took {seconds:.0f} s, more than {limit_seconds:.0f} s")
        failed += 1
    console.print(f"{passed} passed, {failed} failed")
    return failed == 0
