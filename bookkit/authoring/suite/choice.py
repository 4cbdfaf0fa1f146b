"""What a test run has to prove now, and what stands on an earlier proof."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bookkit.authoring.page import Page, find_pages, join
from bookkit.authoring.proof import aged, commit_count, installed_versions
from bookkit.authoring.reach import Finder
from bookkit.authoring.repository import chapter_number, notebooks, relative
from bookkit.authoring.stamp import (
    changes,
    draws_digest,
    edited_side,
    finder_of,
    outputs_digest,
    stored_stamp,
)
from bookkit.authoring.suite.ledger import Proof, code_of, inputs_digest, read_ledger, required

# A prime: landings of two commits at a time visit every part too, as those of any number but seven.
PARTS = 7
KINDS = ("checks", "unit", "studies", "notebooks", "exercises")
STANDING = "standing"
# Why something is run, in the order in which the summary tells it.
REASONS = ("new", "stale", "old", "turn", "asked")


@dataclass(frozen=True)
class Subject:
    """One file that is proven as a whole.

    Attributes:
        name: its path from the root.
        kind: one of `KINDS`.
        reason: why it is run, of `REASONS`, or `standing`.
        because: what is stale or old about its proof.
        seconds: what it took when it was proven; 0 if that is not known.
        alone: whether it starts several processes, and shares its time with no other such one.
        stands: commit, date, versions and processor of its earlier proof.
    """

    name: str
    kind: str
    reason: str
    because: tuple[str, ...] = ()
    seconds: float = 0.0
    alone: bool = False
    stands: Mapping[str, Any] = field(default_factory=dict)

    @property
    def runs(self) -> bool:
        """Whether it is run now."""
        return self.reason != STANDING


def choose(
    root: Path,
    *,
    everything: bool = False,
    chapter: int | None = None,
    kinds: tuple[str, ...] = KINDS,
) -> list[Subject]:
    """Judge every file of the book that can be proven.

    Run are those without a proof, those whose code or inputs have changed since, those that were
    proven with other versions of the libraries, and a seventh of the rest: the number of commits
    says which, so that each has its turn.

    Args:
        root: the checkout.
        everything: run all, whatever stands.
        chapter: only what belongs to a chapter, all of it.
        kinds: only these kinds.
    """
    ledger = read_ledger(root)
    turn = commit_count(root) % PARTS
    found = []
    if "unit" in kinds:
        found += [_by_ledger(root, name, "unit", ledger) for name in _tests(root)]
    if "studies" in kinds:
        names = [n for n in _studies(root) if chapter is None or _reads_study(root, chapter, n)]
        found += [_by_ledger(root, name, "studies", ledger) for name in names]
    if "exercises" in kinds:
        names = [name for name in _exercises(root) if _of_chapter(name, chapter)]
        found += [_by_ledger(root, name, "exercises", ledger) for name in names]
    if "notebooks" in kinds:
        found += [_by_stamp(page) for page in find_pages(root) if _of_page(page, chapter)]
        orphans = {relative(path, root) for path in notebooks(root)} - {s.name for s in found}
        found += [
            Subject(name, "notebooks", "new")
            for name in sorted(orphans)
            if _of_chapter(name, chapter)
        ]
    return [_asked(subject, everything or chapter is not None, turn) for subject in found]


def part_of(name: str) -> int:
    """Which seventh a file belongs to, from 0 to 6: the same at every commit."""
    return zlib.crc32(name.encode()) % PARTS


def sources_of(path: Path) -> list[str]:
    """The code cells of a notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def current_code(finder: Finder, name: str, modules: tuple[str, ...]) -> tuple[str, set[str]]:
    """The digest of the code that a subject reaches now, and the modules that it imports."""
    path = finder.root / name
    sources = sources_of(path) if path.suffix == ".ipynb" else []
    return code_of(finder, name, modules, sources)


def _asked(subject: Subject, everything: bool, turn: int) -> Subject:
    if subject.reason != STANDING:
        return subject
    if everything:
        return _with_reason(subject, "asked")
    return _with_reason(subject, "turn") if part_of(subject.name) == turn else subject


def _with_reason(subject: Subject, reason: str) -> Subject:
    return Subject(**{**subject.__dict__, "reason": reason})


def _by_ledger(root: Path, name: str, kind: str, ledger: Mapping[str, Proof]) -> Subject:
    proof = ledger.get(name)
    if proof is None:
        return Subject(name, kind, "new")
    context = {
        "commit": proof.commit,
        "date": proof.date,
        "versions": dict(proof.versions),
        "processor": proof.processor,
    }
    code, _ = current_code(finder_of(root), name, proof.observed.modules)
    because = [] if code == proof.code else ["its code"]
    if inputs_digest(root, proof.observed) != proof.inputs:
        because.append("its inputs")
    older = aged(proof.versions, installed_versions())
    if proof.skipped and not set(required()) <= set(proof.required):
        older.append(f"{proof.skipped} of its tests were skipped")
    reason = "stale" if because else "old" if older else STANDING
    return Subject(name, kind, reason, tuple(because or older), proof.seconds, stands=context)


def _by_stamp(page: Page) -> Subject:
    """An executed page, whose stamp is its proof."""
    name = page.notebook_name
    notebook = page.stored()
    stamp = stored_stamp(notebook)
    if notebook is None or stamp is None:
        return Subject(name, "notebooks", "new")
    content = page.content()
    because = changes(page, content, stamp)
    if edited_side(page) in {"notebook", "both"}:
        because.append("its notebook")
    if outputs_digest(notebook) != stamp["outputs"]:
        because.append("its outputs")
    if draws_digest(notebook) != stamp.get("draws"):
        because.append("its measurements")
    older = aged(stamp["versions"], installed_versions())
    reason = "stale" if because else "old" if older else STANDING
    return Subject(
        name,
        "notebooks",
        reason,
        tuple(because or older),
        float(stamp["seconds"]),
        bool(content.settings.get("exclusive")),
        {key: stamp.get(key) for key in ("commit", "date", "versions", "processor")},
    )


def _tests(root: Path) -> list[str]:
    return [relative(path, root) for path in sorted((root / "tests").rglob("test_*.py"))]


def _studies(root: Path) -> list[str]:
    return [relative(path, root) for path in sorted((root / "studies").glob("[!_]*.py"))]


def _exercises(root: Path) -> list[str]:
    paths = notebooks(root, ("exercises",))
    return [relative(path, root) for path in paths if not path.name.endswith(".new.ipynb")]


def _of_page(page: Page, chapter: int | None) -> bool:
    return chapter is None or chapter_number(page.text) == chapter


def _of_chapter(name: str, chapter: int | None) -> bool:
    return chapter is None or chapter_number(Path(name)) == chapter


def _reads_study(root: Path, chapter: int, name: str) -> bool:
    stem = Path(name).stem
    return any(
        _of_page(page, chapter) and stem in page.text.read_text("utf-8")
        for page in find_pages(root)
    )
