"""What the landing page states of chapters: minutes on their cards, and the hours of its paths."""

import re
from collections.abc import Iterator
from pathlib import Path

from bookkit.authoring.reading_time import reading_time
from bookkit.authoring.repository import markdown_files
from bookkit.authoring.stamp import Finding

LANDING = "book/index.md"
LINK = re.compile(r"^:link: (\S+)\.ipynb$")
READ_MINUTES = re.compile(r"^(\d+) min to read\b")
EXERCISE_MINUTES = re.compile(r"(?:(\d+) h )?(\d+) min of exercises")
HEAD = re.compile(r"^`[\w.]+` · difficulty \d of \d · (\d+) minutes$", re.MULTILINE)
CHAPTERS = r"\d\d(?:[, –]+\d\d)*"
# A row of the paths: | who it is for | 11, 21–24, with exercises | 12 |
# or, with the exercises of some chapters only: | … | 11, 12; the exercises of 11 | 5 |
PATH = re.compile(
    rf"^\|.+\| (?P<read>{CHAPTERS})(?P<all>, with exercises)?"
    rf"(?:; the exercises of (?P<some>{CHAPTERS}))? \| (?P<hours>\d+) \|$"
)


def landing_findings(root: Path) -> Iterator[Finding]:
    """Compare the minutes of the cards and the hours of the paths with what the chapters take.

    Args:
        root: the checkout; its landing page exists.
    """
    page = root / LANDING
    chapter: Path | None = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        link = LINK.match(line)
        if line.startswith(":::{"):
            chapter = None
        elif link:
            chapter = page.parent / f"{link[1]}.md"
        elif chapter is not None and chapter.exists():
            yield from _card_findings(root, chapter, line, number)
        path = PATH.match(line)
        if path:
            yield from _path_findings(root, path, number)


def exercise_minutes(root: Path, stem: str) -> int:
    """The minutes that the exercises of a chapter take, as its solutions state them; 0 for none."""
    page = root / "solutions" / f"{stem}.md"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    return sum(int(minutes) for minutes in HEAD.findall(text))


def _card_findings(root: Path, chapter: Path, line: str, number: int) -> Iterator[Finding]:
    read, exercises = READ_MINUTES.match(line), EXERCISE_MINUTES.search(line)
    if read:
        right = reading_time(chapter.read_text(encoding="utf-8")).minutes
        if int(read[1]) != right:
            problem = f"{read[1]} min to read is stated for {chapter.name}, counted are {right}"
            yield Finding(LANDING, problem, f"write {right} min", number)
    if exercises:
        stated = 60 * int(exercises[1] or 0) + int(exercises[2])
        right = exercise_minutes(root, chapter.stem)
        if stated != right:
            problem = f"{stated} min of exercises are stated for {chapter.name}"
            mend = f"write {_as_stated(right)}"
            yield Finding(LANDING, f"{problem}, its solutions have {right}", mend, number)


def _path_findings(root: Path, path: re.Match[str], number: int) -> Iterator[Finding]:
    read = _numbers(path["read"])
    exercises = read if path["all"] else _numbers(path["some"] or "")
    pages = {page.name[:2]: page for page in markdown_files(root, ("notebooks",))}
    missing = [chapter for chapter in read + exercises if chapter not in pages]
    if missing:
        problem = f"a path names chapter {', '.join(missing)}, which is not written"
        yield Finding(LANDING, problem, "leave it out", number)
        return
    minutes = sum(reading_time(pages[c].read_text(encoding="utf-8")).minutes for c in read)
    minutes += sum(exercise_minutes(root, pages[c].stem) for c in exercises)
    right = int(minutes / 60 + 0.5)
    if int(path["hours"]) != right:
        problem = f"a path of {path['hours']} hours takes {minutes} minutes"
        yield Finding(LANDING, problem, f"write {right}", number)


def _numbers(text: str) -> list[str]:
    """The chapters of "01–03, 11": a range holds the numbers between its ends."""
    found: list[str] = []
    for part in re.findall(r"(\d\d)(?:–(\d\d))?", text):
        first, last = int(part[0]), int(part[1] or part[0])
        found += [f"{chapter:02d}" for chapter in range(first, last + 1)]
    return found


def _as_stated(minutes: int) -> str:
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if minutes > 90 else f"{minutes} min"
