"""Where a learner stands: how much of a chapter is done, and what comes next."""

from collections.abc import Sequence

from bookkit.exercises.progress import Progress
from bookkit.exercises.registry import sections_of_chapter
from bookkit.exercises.solution import Section


def next_after(exercise_id: str, sections: Sequence[Section], kept: Progress) -> Section | None:
    """The first exercise behind this one that is not done; behind the last, from the first on."""
    place = [section.id for section in sections].index(exercise_id) + 1
    in_order = [*sections[place:], *sections[:place]]
    return next((s for s in in_order if kept.state(s.id) != "done"), None)


def standing_line(exercise_id: str, chapter: int, kept: Progress) -> str:
    """One sentence behind a pass: ``3 of 9 done in this chapter; next: …``."""
    sections = sections_of_chapter(chapter)
    done = sum(kept.state(section.id) == "done" for section in sections)
    line = f"{done} of {len(sections)} done in chapter {chapter}"
    following = next_after(exercise_id, sections, kept)
    if following is None:
        return f"{line}: all of it. `nbkit progress` shows the other chapters."
    return f"{line}; next: {following.title}, `{following.id}`, {following.minutes} minutes."
