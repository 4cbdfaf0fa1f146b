"""The builds as progress and desk list them: by their pages, without loading a judge."""

from dataclasses import dataclass
from pathlib import Path

import yaml

from bookkit.exercises.progress import Progress, State
from nbkit.runs.root import ROOT

PAGES, FILES = "book/builds", "exercises/builds"


@dataclass(frozen=True)
class BuildPlace:
    """One build and where a learner stands with it.

    Attributes:
        id: in the file of progress, `build.12`.
        chapter: None for the capstone, which belongs to the whole book.
        title: one line.
        page: the specification, by its path from the book's folder.
        file: what the learner writes, likewise.
        state: done, failed or not tried.
        tries: how often it was judged.
        scores: of the last try, by stage.
        when: the day of the first pass, else of the last try; "" where it was never tried.

    """

    id: str
    chapter: int | None
    title: str
    page: str
    file: str
    state: State
    tries: int
    scores: dict[str, float]
    when: str

    def said(self) -> str:
        """The standing in a line: `passed 2026-11-30, 3 tries; CartPole-v1 500, …`."""
        if not self.tries:
            return "not tried"
        word = "passed" if self.state == "done" else "not yet, tried"
        tries = f"{self.tries} {'try' if self.tries == 1 else 'tries'}"
        scores = ", ".join(f"{stage} {score:.4g}" for stage, score in self.scores.items())
        return f"{word} {self.when}, {tries}" + (f"; last scores: {scores}" if scores else "")


def build_places(kept: Progress, root: Path = ROOT) -> list[BuildPlace]:
    """All builds by chapter, the capstone last.

    Args:
        kept: what the learner has done.
        root: the book's folder.

    """
    found = [_place(page, kept, root) for page in (root / PAGES).glob("*.md")]
    return sorted(found, key=lambda place: (place.chapter is None, place.chapter or 0, place.id))


def _place(page: Path, kept: Progress, root: Path) -> BuildPlace:
    head = page.read_text("utf-8").partition("---\n")[2].partition("\n---")[0]
    number = page.stem.partition("_")[0]
    chapter = int(number) if number.isdecimal() else None
    name = f"build.{page.stem if chapter is None else chapter}"
    record = kept.exercises.get(name)
    when = "" if record is None else f"{record.first_passed or record.last_tried:%Y-%m-%d}"
    return BuildPlace(
        id=name,
        chapter=chapter,
        title=str(yaml.safe_load(head)["title"]).partition(": ")[2],
        page=page.relative_to(root).as_posix(),
        file=f"{FILES}/{page.stem}.py",
        state=kept.state(name),
        tries=0 if record is None else record.attempts,
        scores={} if record is None else record.scores,
        when=when,
    )
