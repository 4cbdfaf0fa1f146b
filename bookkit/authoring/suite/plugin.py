"""The pytest plugin of the book: `nbkit test` is pytest with this plugin and with two processes.

It makes pages, exercises, studies and checks into items, chooses what is run (`choice`), observes
what each test file takes from the checkout (`observe`), and ends with what was proven now and what
stands on an earlier proof (`report`).
"""

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bookkit.authoring.repository import relative
from bookkit.authoring.suite.choice import KINDS, Subject, choose
from bookkit.authoring.suite.items import CHECKS_FILE, BookFile, PageItem, is_ours
from bookkit.authoring.suite.observe import Observer
from bookkit.authoring.suite.report import Tally, keep, summary
from bookkit.authoring.suite.scheduling import SurvivingScheduling

PLAN = pytest.StashKey[dict[str, Any]]()
ALONE = "alone"
# Test files that take longer are shared out over the processes test by test.
SHARED_OUT_SECONDS = 60.0
WIDE_SCOPES = {"session", "package"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options that `nbkit test` gives."""
    group = parser.getgroup("book")
    group.addoption("--book-all", action="store_true", help="run all, whatever stands")
    group.addoption("--book-keep", action="store_true", help="write the proofs of what passed")
    group.addoption("--book-only", action="append", choices=KINDS, help="only one kind")
    group.addoption("--chapter", type=int, default=None, help="only what belongs to a chapter")
    group.addoption("--book-counts", type=Path, help="where to write the counts, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Choose what is run; a worker is told by the controller."""
    given = getattr(config, "workerinput", None)
    if given is not None:
        plan = json.loads(given["book"])
    else:
        option = config.option
        if option.book_keep and (option.keyword or option.markexpr or option.deselect):
            raise pytest.UsageError("a part of a file's tests proves nothing; keep a whole run")
        subjects = choose(
            config.rootpath,
            everything=option.book_all,
            chapter=option.chapter,
            kinds=tuple(option.book_only or KINDS),
        )
        notes = tempfile.mkdtemp(prefix="nbkit-notes-")
        plan = {"subjects": {s.name: s.__dict__ for s in subjects}, "notes": notes}
        config.pluginmanager.register(_Controller(config, subjects, Path(notes)), "book-controller")
    config.stash[PLAN] = plan
    if given is not None or not getattr(config.option, "numprocesses", None):
        observer = Observer(Path(plan["notes"]), config.rootpath)
        config.pluginmanager.register(_Observing(config, observer), "book-observing")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let the run go on where a test ends its process."""
    return SurvivingScheduling(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of xdist the plan."""
    node.workerinput["book"] = json.dumps(node.config.stash[PLAN])


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files that stand on an earlier proof, before they are imported."""
    if collection_path.is_dir():
        return None
    name = relative(collection_path, config.rootpath)
    if name == CHECKS_FILE:
        return "checks" not in (config.option.book_only or KINDS)
    subject = config.stash[PLAN]["subjects"].get(name)
    if subject is not None:
        return subject["reason"] == "standing"
    # Other test files, pages and studies do not belong to what was asked for.
    known = name.startswith("tests/") and collection_path.name.startswith("test_")
    return True if known or is_ours(collection_path, config.rootpath) else None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Make the files of the book into items."""
    if is_ours(file_path, parent.config.rootpath):
        return BookFile.from_parent(parent, path=file_path)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one chapter's tests if asked; the longest first, so that no long one ends alone."""
    chapter = config.option.chapter
    if chapter is not None:
        left = [item for item in items if not _belongs(item, chapter)]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]
    plan = config.stash[PLAN]["subjects"]
    for item in items:
        group = _group(item, plan.get(subject_of(item), {}))
        if group is not None and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(group))
        if isinstance(item, PageItem):
            item.add_marker(pytest.mark.timeout(0))
    items.sort(key=lambda item: _place(item, plan))


def subject_of(item: pytest.Item) -> str:
    """The file that an item belongs to, from the root."""
    return relative(item.path, item.config.rootpath)


def _belongs(item: pytest.Item, chapter: int) -> bool:
    if not subject_of(item).startswith("tests/"):
        return True
    return chapter in {n for mark in item.iter_markers("chapter") for n in mark.args}


def _group(item: pytest.Item, subject: dict[str, Any]) -> str | None:
    if subject.get("alone"):
        return ALONE
    if subject.get("kind") != "unit" or subject["seconds"] > SHARED_OUT_SECONDS:
        return None
    return subject["name"]


def _place(item: pytest.Item, plan: dict[str, Any]) -> tuple[int, float, str]:
    name = subject_of(item)
    subject = plan.get(name, {})
    kind = KINDS.index(subject.get("kind", "checks"))
    order = {"checks": 0, "notebooks": 1}.get(KINDS[kind], 2)
    return order, -float(subject.get("seconds", 0.0)), name


class _Observing:
    """In the process that runs tests: says whose notes are taken."""

    def __init__(self, config: pytest.Config, observer: Observer) -> None:
        self.config = config
        self.observer = observer

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        """What a test module reads when it is imported."""
        path = getattr(collector, "path", None)
        if not isinstance(collector, pytest.Module) or path is None:
            return (yield)
        with self.observer.noting(relative(path, self.config.rootpath)):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """What a test reads, its own fixtures included."""
        name = subject_of(item)
        for fixture in getattr(item, "fixturenames", ()):
            self.observer.uses(name, f"fixture-{fixture}")
        with self.observer.noting(name):
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """A test may have asked for more fixtures while it ran."""
        request = getattr(item, "_request", None)
        for fixture in getattr(request, "fixturenames", ()):
            self.observer.uses(subject_of(item), f"fixture-{fixture}")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        """What a fixture of the session reads counts for every test file that uses it."""
        if fixturedef.scope not in WIDE_SCOPES:
            return (yield)
        with self.observer.noting(f"fixture-{fixturedef.argname}"):
            return (yield)


class _Controller:
    """In the process that was called: counts, keeps the proofs, and tells how it ended."""

    def __init__(self, config: pytest.Config, subjects: list[Subject], notes: Path) -> None:
        self.config = config
        self.subjects = {subject.name: subject for subject in subjects}
        self.notes = notes
        self.tallies: dict[str, Tally] = {}
        self.began = time.time()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Which tests a worker has found; each finds the same."""
        for nodeid in ids:
            self._tally(nodeid).collected.add(nodeid)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Which tests this process has found, where it runs them itself."""
        self.pytest_xdist_node_collection_finished([item.nodeid for item in session.items])

    def _tally(self, nodeid: str) -> Tally:
        return self.tallies.setdefault(nodeid.split("::")[0], Tally())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what a file's tests gave."""
        self._tally(report.nodeid).add(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be collected has failed."""
        if report.failed:
            self._tally(report.nodeid).failed += 1

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Tell what was proven now and what stands."""
        kept: list[str] = []
        edited: list[str] = []
        if self.config.option.book_keep:
            root = self.config.rootpath
            kept, edited = keep(root, self.subjects, self.tallies, self.notes, self.began)
        terminalreporter.section("the book")
        whole = self.config.option.chapter is None
        for line in summary(self.subjects, self.tallies, kept, edited, whole=whole):
            terminalreporter.write_line(line)
        counts = {
            "passed": sum(tally.passed for tally in self.tallies.values()),
            "failed": sum(tally.failed for tally in self.tallies.values()),
            "due": sum(subject.runs for subject in self.subjects.values()),
            "standing": sum(not subject.runs for subject in self.subjects.values()),
            "skipped": sum(tally.skipped for tally in self.tallies.values()),
        }
        if self.config.option.book_counts:
            self.config.option.book_counts.write_text(json.dumps(counts))

    def pytest_unconfigure(self) -> None:
        """Leave no notes behind."""
        shutil.rmtree(self.notes, ignore_errors=True)
