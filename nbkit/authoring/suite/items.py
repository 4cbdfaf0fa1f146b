"""What `make test` consists of: each item a command, and how its outcome is read."""

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from nbkit.authoring.environment import (
    DEFAULT_CELL_SECONDS,
    live_limit_seconds,
    page_environment,
    python_command,
)
from nbkit.authoring.jobs import Job, Outcome
from nbkit.authoring.page import Page, content_of_notebook, find_pages
from nbkit.authoring.record import MODE_VARIABLE, PAGE_VARIABLE
from nbkit.authoring.repository import chapter_number, notebooks, relative
from nbkit.authoring.stamp import stored_stamp

KINDS = ("checks", "unit", "studies", "notebooks", "exercises")
# The tools' own commands: each compares something generated with what it is generated from.
GENERATORS: tuple[tuple[str, ...], ...] = (
    ("exercises", "split", "--check"),
    ("tangle", "--check"),
    ("job", "render", "--check"),
    ("stamp", "--check"),
    ("lint-prose",),
)
OF_A_CHAPTER = {"exercises", "tangle", "stamp"}
LINTERS = (
    ("ruff check", ("-m", "ruff", "check", "--quiet", ".")),
    ("ruff format", ("-m", "ruff", "format", "--check", "--quiet", ".")),
    ("mypy", ("-m", "mypy")),
)
NBMAKE = Path(__file__).with_name("run_nbmake.py")
ITEM_SECONDS = 1800.0
NO_TESTS_COLLECTED = 5


@dataclass(frozen=True)
class Item:
    """One item of the suite.

    Attributes:
        kind: one of `KINDS`.
        job: what runs.
        report: the JUnit file that the job writes, if it is a pytest run.
        may_be_empty: whether a pytest run without tests is in order.
        live_limit_seconds: how long its cells may take, if it is a chapter.
    """

    kind: str
    job: Job
    report: Path | None = None
    may_be_empty: bool = False
    live_limit_seconds: int | None = None


@dataclass(frozen=True)
class Verdict:
    """How an item ended: counts, seconds, and a remark for the table."""

    item: Item
    passed: int
    failed: int
    seconds: float
    remark: str
    log: str


def make_items(root: Path, folder: Path, chapter: int | None, kinds: tuple[str, ...]) -> list[Item]:
    """List what is to be run.

    Args:
        root: the checkout.
        folder: where reports may be written.
        chapter: only what belongs to this chapter; None for everything.
        kinds: which kinds, of `KINDS`.
    """
    makers = {
        "checks": lambda: _checks(root, chapter),
        "unit": lambda: _unit_tests(root, folder, chapter),
        "studies": lambda: _studies(root, chapter),
        "notebooks": lambda: _notebooks(root, folder, chapter),
        "exercises": lambda: _exercises(root, chapter),
    }
    return [item for kind in KINDS if kind in kinds for item in makers[kind]()]


def judge(item: Item, outcome: Outcome) -> Verdict:
    """Read an outcome."""
    passed, failed, remark = int(outcome.passed), int(not outcome.passed), ""
    seconds = outcome.seconds
    if item.report is not None:
        counts = _counts(item.report)
        if counts is None:
            remark = "pytest wrote no report"
        else:
            passed, skipped = counts["passed"], counts["skipped"]
            failed = counts["failed"] or int(not outcome.passed)
            remark = f"{skipped} skipped" if skipped else ""
        if outcome.status == NO_TESTS_COLLECTED:
            failed = int(not item.may_be_empty)
            remark = "no tests" if item.may_be_empty else "nothing was run"
    if outcome.timed_out:
        remark = f"ended after {item.job.limit_seconds:.0f} s"
    limit = item.live_limit_seconds
    if limit is not None and not failed and _live_seconds(item, seconds) > limit:
        remark = f"{_live_seconds(item, seconds):.0f} s live, over its {limit} s"
    return Verdict(item, passed, failed, seconds, remark, outcome.log)


def _checks(root: Path, chapter: int | None) -> list[Item]:
    items = []
    for words in GENERATORS:
        if chapter is not None and words[0] in OF_A_CHAPTER:
            words = (*words, "--chapter", str(chapter))
        command = python_command("-m", "nbkit.cli", *words)
        items.append(Item("checks", Job(f"nbkit {' '.join(words)}", command, root)))
    if chapter is None:
        for name, words in LINTERS:
            items.append(Item("checks", Job(name, python_command(*words), root)))
    return items


def _unit_tests(root: Path, folder: Path, chapter: int | None) -> list[Item]:
    if not (root / "tests").is_dir():
        return []
    report = folder / "unit.xml"
    words = ["-m", "pytest", "-q", "-p", "no:nbmake", "-n", "2", "--dist=worksteal"]
    words += ["--durations=10", f"--junitxml={report}", "tests"]
    name = "pytest tests"
    if chapter is not None:
        words += ["--chapter", str(chapter)]
        name += f" --chapter {chapter}"
    job = Job(name, [sys.executable, *words], root, limit_seconds=ITEM_SECONDS)
    job.environment["OMP_NUM_THREADS"] = "1"
    return [Item("unit", job, report, may_be_empty=chapter is not None)]


def _studies(root: Path, chapter: int | None) -> list[Item]:
    items = []
    for script in sorted((root / "studies").glob("*.py")):
        if script.name.startswith("_") or not (
            chapter is None or _reads_study(root, chapter, script.stem)
        ):
            continue
        job = Job(
            f"studies/{script.name} --check",
            python_command(str(script), "--check"),
            root,
            page_environment(root, script),
        )
        items.append(Item("studies", job))
    return items


def _reads_study(root: Path, chapter: int, name: str) -> bool:
    wanted = re.compile(rf"\b{re.escape(name)}\b")
    return any(
        chapter_number(page.text) == chapter and wanted.search(page.text.read_text("utf-8"))
        for page in find_pages(root)
    )


def _notebooks(root: Path, folder: Path, chapter: int | None) -> list[Item]:
    items = []
    for path in notebooks(root):
        number = chapter_number(path)
        if chapter is None or number == chapter:
            items.append(_notebook(root, folder, path, number))
    # The longest first, so that the last one does not run alone for long.
    return sorted(items, key=lambda item: -_stored_seconds(root / item.job.name))


def _notebook(root: Path, folder: Path, path: Path, number: int | None) -> Item:
    name = relative(path, root)
    settings = content_of_notebook(json.loads(path.read_text(encoding="utf-8")), name).settings
    report = folder / f"{name.replace('/', '-')}.xml"
    words = [
        *(str(NBMAKE), "--nbmake", "-q", "-p", "no:cacheprovider", "-o", "addopts="),
        *(f"--rootdir={root}", f"--junitxml={report}", "--timeout=0", "--nbmake-kernel=python3"),
        f"--nbmake-timeout={settings.get('cell_timeout', DEFAULT_CELL_SECONDS)}",
        str(path),
    ]
    environment = page_environment(root, path)
    environment |= {PAGE_VARIABLE: str(path), MODE_VARIABLE: "compare"}
    job = Job(
        name,
        python_command(*words),
        root,
        environment,
        exclusive=bool(settings.get("exclusive")),
        limit_seconds=ITEM_SECONDS,
    )
    is_chapter = path.parent == root / "notebooks"
    return Item(
        "notebooks",
        job,
        report,
        live_limit_seconds=live_limit_seconds(number) if is_chapter else None,
    )


def _exercises(root: Path, chapter: int | None) -> list[Item]:
    return [
        Item(
            "exercises",
            Job(
                relative(path, root),
                python_command("-m", "nbkit.authoring.suite.untouched", str(path)),
                root,
            ),
        )
        for path in notebooks(root, ("exercises",))
        if not path.name.endswith(".new.ipynb")
        and (chapter is None or chapter_number(path) == chapter)
    ]


def _stored_seconds(path: Path) -> float:
    text = path.with_suffix(".md")
    stamp = stored_stamp(Page(path.parent, text).stored())
    return float(stamp["seconds"]) if stamp else 0.0


def _live_seconds(item: Item, seconds: float) -> float:
    """What nbmake measured, which leaves out its own start; else the whole time of the process."""
    if item.report is None or not item.report.exists():
        return seconds
    cases = ElementTree.parse(item.report).getroot().iter("testcase")
    return sum(float(case.get("time", 0)) for case in cases)


def _counts(report: Path) -> dict[str, int] | None:
    if not report.exists():
        return None
    counts = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        for key in counts:
            counts[key] += int(suite.get(key, 0))
    failed = counts["failures"] + counts["errors"]
    passed = counts["tests"] - failed - counts["skipped"]
    return {"passed": passed, "failed": failed, "skipped": counts["skipped"]}
