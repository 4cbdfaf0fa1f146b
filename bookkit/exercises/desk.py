"""The learner's desk: one page with the standing of each chapter and what comes next."""

import html
from collections.abc import Sequence
from dataclasses import dataclass

from bookkit.exercises.builds import BuildPlace, build_places
from bookkit.exercises.predictions import scores
from bookkit.exercises.progress import Progress, load, progress_file
from bookkit.exercises.registry import all_exercises, exercise_notebook


@dataclass(frozen=True)
class Place:
    """One exercise as the desk shows it."""

    id: str
    title: str
    minutes: int
    state: str
    not_tested: str


@dataclass(frozen=True)
class Standing:
    """One chapter: its exercises in their order, the notebook that holds them, and its builds."""

    chapter: int
    notebook: str
    places: tuple[Place, ...]
    builds: tuple[BuildPlace, ...] = ()

    @property
    def done(self) -> int:
        """How many exercises are done."""
        return sum(place.state == "done" for place in self.places)

    @property
    def following(self) -> Place | None:
        """The first exercise that is not done."""
        return next((place for place in self.places if place.state != "done"), None)


def standings(kept: Progress) -> list[Standing]:
    """The standing of every chapter that has exercises."""
    chapters: dict[int, list[Place]] = {}
    for exercise in all_exercises().values():
        state = kept.state(exercise.id)
        place = Place(exercise.id, exercise.title, exercise.minutes, state, exercise.not_tested)
        chapters.setdefault(exercise.chapter, []).append(place)
    builds = build_places(kept)
    return [
        Standing(
            chapter,
            exercise_notebook(chapter),
            tuple(places),
            tuple(build for build in builds if build.chapter == chapter),
        )
        for chapter, places in chapters.items()
    ]


def whole_book(kept: Progress) -> list[BuildPlace]:
    """The builds that belong to no chapter: the capstone."""
    return [build for build in build_places(kept) if build.chapter is None]


def desk() -> None:
    """Show where you stand: chapters, builds, what comes next, what passes do not prove."""
    path = progress_file()
    kept = load(path) if path is not None else Progress()
    found, whole, guessed = standings(kept), whole_book(kept), scores()
    text, page = as_text(found, guessed, whole), as_html(found, guessed, whole)
    from bookkit.exercises.verdict import in_notebook

    if not in_notebook():
        print(text)
        return
    from IPython.display import display

    display({"text/plain": text, "text/html": page}, raw=True)


def as_text(
    found: list[Standing], guessed: dict[str, int], whole: Sequence[BuildPlace] = ()
) -> str:
    """The desk as plain text."""
    lines = []
    for standing in found:
        line = f"chapter {standing.chapter}: {standing.done} of {len(standing.places)} done"
        following = standing.following
        if following is not None:
            line += f"; next: {following.title} ({following.id}, {following.minutes} minutes)"
        lines.append(line)
        lines += [f"  build: {build.title}: {build.said()}" for build in standing.builds]
    lines += [f"whole book: {build.title}: {build.said()}" for build in whole]
    lines += [f"prediction {name}: {score} of 100" for name, score in guessed.items()]
    return "\n".join(lines)


def as_html(
    found: list[Standing], guessed: dict[str, int], whole: Sequence[BuildPlace] = ()
) -> str:
    """The desk as a page: a table of chapters, and below each the limits of what was passed."""
    rows = "".join(_row(standing) for standing in found)
    page = (
        '<table class="nbkit-desk"><thead><tr><th>chapter</th><th>done</th><th>next exercise</th>'
        "<th>build</th><th>what a pass does not prove</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )
    page += "".join(f"<p>Whole book: {_build(build)}</p>" for build in whole)
    if guessed:
        items = "".join(
            f"<li><code>{html.escape(name)}</code>: {score} of 100</li>"
            for name, score in guessed.items()
        )
        page += f"<p>Predictions:</p><ul>{items}</ul>"
    return page


def _row(standing: Standing) -> str:
    following = standing.following
    link = "all done"
    if following is not None:
        link = (
            f'<a href="{html.escape(standing.notebook)}">{html.escape(following.title)}</a> '
            f"<code>{html.escape(following.id)}</code>, {following.minutes} minutes"
        )
    passed = [place for place in standing.places if place.state == "done"]
    limits = "".join(
        f"<li><code>{html.escape(p.id)}</code>: {html.escape(p.not_tested)}</li>" for p in passed
    )
    folded = f"<details><summary>{len(passed)} passed</summary><ul>{limits}</ul></details>"
    return (
        f"<tr><td>{standing.chapter}</td><td>{standing.done} of {len(standing.places)}</td>"
        f"<td>{link}</td><td>{'<br>'.join(map(_build, standing.builds))}</td>"
        f"<td>{folded if passed else ''}</td></tr>"
    )


def _build(build: BuildPlace) -> str:
    sign = {"done": "✔ ", "failed": "✘ "}.get(build.state, "")
    return (
        f'{sign}<a href="{html.escape(build.file)}">{html.escape(build.title)}</a>, '
        f"{html.escape(build.said())}"
    )
