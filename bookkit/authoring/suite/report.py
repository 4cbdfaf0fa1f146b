"""How a test run ended: what was proven now, and what stands on which earlier proof."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bookkit.authoring.proof import proof_context
from bookkit.authoring.stamp import finder_of
from bookkit.authoring.suite.choice import KINDS, REASONS, STANDING, Subject, current_code
from bookkit.authoring.suite.ledger import (
    Observed,
    Proof,
    conftests,
    inputs_digest,
    read_ledger,
    required,
    write_ledger,
)
from bookkit.authoring.suite.observe import observed_of

NAMES = {
    "unit": ("test file", "test files"),
    "studies": ("head of a study", "heads of studies"),
    "notebooks": ("page", "pages"),
    "exercises": ("exercise", "exercises"),
}
NAMED = 12


@dataclass
class Tally:
    """What the tests of one file gave; seconds of the clock.

    `collected` and `ended` hold the ids of its tests: a run may be broken off between them.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    collected: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)

    @property
    def proves(self) -> bool:
        """Whether every test of the file has ended and none has failed."""
        return not self.failed and bool(self.ended) and self.collected <= self.ended

    def add(self, report: pytest.TestReport) -> None:
        """Take in one phase of one test."""
        self.seconds += report.duration
        if report.when == "teardown":
            self.ended.add(report.nodeid)
        if report.failed:
            self.failed += 1
        elif report.skipped:
            self.skipped += 1
        elif report.when == "call":
            self.passed += 1


def keep(
    root: Path,
    subjects: Mapping[str, Subject],
    tallies: Mapping[str, Tally],
    notes: Path,
    began: float,
) -> tuple[list[str], list[str]]:
    """Write the proofs of the files that passed whole; pages have theirs in their stamps.

    Args:
        root: the checkout.
        subjects: what was chosen.
        tallies: what was run.
        notes: the folder of what was observed.
        began: when the run began, in seconds since the epoch; what was edited later may not be
            what ran.

    Returns:
        The names of what was kept, and of what was edited on the way and was not.
    """
    ledger = read_ledger(root)
    finder = finder_of(root)
    kept, edited = [], []
    for name, subject in subjects.items():
        tally = tallies.get(name)
        if subject.kind == "notebooks" or tally is None or not tally.passed or not tally.proves:
            continue
        _, reached = current_code(finder, name, ())
        observed = observed_of(notes, name, reached)
        code, modules = current_code(finder, name, observed.modules)
        sources = [path for module in modules if (path := finder.file_of(module))]
        if any(_written_after(path, began) for path in (*sources, *files_of(root, name, observed))):
            edited.append(name)
            continue
        ledger[name] = Proof(
            code=code,
            inputs=inputs_digest(root, observed),
            observed=observed,
            seconds=round(tally.seconds, 1),
            passed=tally.passed,
            skipped=tally.skipped,
            required=required(),
            **proof_context(root),
        )
        kept.append(name)
    write_ledger(root, ledger)
    return kept, edited


def files_of(root: Path, name: str, observed: Observed) -> list[Path]:
    """The file that was proven, those that pytest loads for it, and those that it read."""
    path = root / name
    return [path, *conftests(root, path), *(root / read for read in observed.reads)]


def _written_after(path: Path, moment: float) -> bool:
    return path.is_file() and path.stat().st_mtime > moment


def summary(
    subjects: Mapping[str, Subject],
    tallies: Mapping[str, Tally],
    kept: Iterable[str],
    edited: Iterable[str] = (),
    *,
    whole: bool,
) -> list[str]:
    """The lines that end a test run.

    Args:
        subjects: what was chosen or stands.
        tallies: what was run.
        kept: the names of the proofs that were written.
        edited: the names of those that were not, because something was edited during the run.
        whole: whether every file was to be run whole, and not only a chapter's part of it.
    """
    lines = []
    times = sorted(tallies.items(), key=lambda pair: -pair[1].seconds)[:NAMED]
    lines.append("longest, in seconds of the clock:")
    lines += [f"  {tally.seconds:7.1f}  {name}" for name, tally in times]
    ran = [s for s in subjects.values() if s.name in tallies]
    proven = [s for s in ran if tallies[s.name].proves]
    lines.append(f"proven now: {_counted(proven) or 'no file of the book'}")
    for reason in REASONS:
        some = [s for s in proven if s.reason == reason]
        if some and reason != "asked":
            lines.append(f"  {_REASONS[reason]}: {_named(some)}")
    for subject in ran:
        if tallies[subject.name].failed:
            because = f" ({', '.join(subject.because)})" if subject.because else ""
            lines.append(f"  failed: {subject.name}, {subject.reason}{because}")
    broken = [s for s in ran if not tallies[s.name].failed and not tallies[s.name].proves]
    if broken:
        lines.append(f"not run to their end: {_named(broken)}")
    standing = [s for s in subjects.values() if s.reason == STANDING]
    lines += _standing(standing)
    missing = [s for s in subjects.values() if s.runs and s.name not in tallies]
    if missing and whole:
        lines.append(f"without a test that was run: {_named(missing)}")
    if kept := list(kept):
        lines.append(f"proofs kept: {len(kept)}")
    if edited := list(edited):
        lines.append(f"edited during the run, run again: {', '.join(edited)}")
    return lines


_REASONS = {
    "new": "without an earlier proof",
    "stale": "their code or inputs have changed",
    "old": "proven with other versions before",
    "turn": "their turn, one commit in seven",
}


def _standing(subjects: list[Subject]) -> list[str]:
    groups: dict[str, list[Subject]] = defaultdict(list)
    for subject in subjects:
        groups[_context(subject.stands)].append(subject)
    lines = [f"standing on an earlier proof: {_counted(subjects) or 'none'}"]
    return lines + [f"  {context}: {_counted(groups[context])}" for context in sorted(groups)]


def _context(stands: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in (stands["versions"] or {}).items())
    return (
        f"commit {str(stands['commit'])[:9]}, {stands['date']}, {versions}, {stands['processor']}"
    )


def _counted(subjects: list[Subject]) -> str:
    parts = []
    for kind in KINDS:
        count = sum(s.kind == kind for s in subjects)
        if count:
            one, many = NAMES[kind]
            parts.append(f"{count} {one if count == 1 else many}")
    return ", ".join(parts)


def _named(subjects: list[Subject]) -> str:
    names = [s.name for s in subjects]
    rest = len(names) - NAMED
    return ", ".join(names) if rest <= 0 else ", ".join(names[:NAMED]) + f" and {rest} more"
