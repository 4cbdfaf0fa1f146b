"""A verdict as text for the terminal, and as figures and a film for a notebook."""

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from bookkit.builds.engine import is_unwritten
from bookkit.builds.reference import beside, library, seconds
from bookkit.builds.registry import LEARNERS, PAGES
from bookkit.builds.verdict import Finding, Picture, Points, Verdict
from nbkit import plots

SHARES = (0.1, 0.25, 0.5, 1.0)
SHOWN_PRINT = 2000  # characters of what the learner's file printed


def as_text(verdict: Verdict) -> str:
    """The verdict, a line a fact."""
    lines = (shown(line) for found in _lines(verdict) for line in found.split("\n"))
    return "\n".join(lines)


def shown(text: str) -> str:
    """A line of a learner's text that can move no cursor and holds nothing that no file can."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )


def _lines(verdict: Verdict) -> Iterator[str]:
    build = verdict.build
    head = f"build {build.number}, {build.title}"
    if is_unwritten(verdict):
        yield f"○ {head}: not written yet"
        yield f"  Write {LEARNERS}/{build.name}.py; {PAGES}/{build.name}.md says what it does."
        yield f"  Its parts are exercises: {', '.join(build.milestones)}."
        return
    fine = not verdict.stopped and all(finding.passed for finding in verdict.findings)
    part = fine and len(verdict.findings) < len(build.stages)
    state = "passed" if verdict.passed else "a part of it" if part else "not yet"
    yield f"{'✔' if verdict.passed else '·' if part else '✘'} {head}: {state}"
    for finding in verdict.findings:
        drawn = replace(finding, picture=beside(build, finding))
        yield from _of_stage(drawn, seconds(build, finding.title))
        theirs = library(build, finding.title)
        if theirs is not None:
            yield f"    beside it, {theirs['label']}: {theirs['said']}"
    if verdict.stopped:
        first, *others = verdict.stopped.split("\n")
        yield f"  ✘ {first}"
        yield from (f"    {line}" for line in others)
    if "unprotected" in verdict.layers:
        yield "  This machine has no sandbox: the file ran with the powers of your user."
    if verdict.printed.strip():
        yield "  Your file printed:"
        printed = verdict.printed[-SHOWN_PRINT:].expandtabs()
        yield from (f"    {line}" for line in printed.splitlines())
    if verdict.passed:
        yield f"  A pass does not prove: {build.not_tested}"
    elif not verdict.stopped:
        yield f"  Parts to check on their own: {', '.join(build.milestones)}."


def _of_stage(finding: Finding, ours: float | None) -> Iterator[str]:
    sign = "✔" if finding.passed else "✘"
    yield f"  {sign} {finding.title}: {finding.sentence}"
    if finding.used:
        took = f"{finding.processor_seconds:.0f} s of processor time"
        known = "" if ours is None else f" (the book's file: {ours:.0f} s on its machine)"
        yield f"    {finding.used:,} {finding.unit}, {took}{known}"
    if finding.picture is not None:
        yield from (f"    {line}" for line in table(finding.picture))
    yield from (f"    {sample}" for sample in finding.samples)
    yield from (f"    to look at: {look}" for look in finding.looks)


def table(picture: Picture) -> list[str]:
    """The curves of a stage at some shares of the learner's steps, a line a curve."""
    longest = max((x for curve in picture.curves[:1] for x, _ in curve.points), default=0.0)
    if not longest:
        return []
    width = max(len(curve.label) for curve in picture.curves)
    places = [share * longest for share in SHARES]
    rows = [f"{picture.x:{width}}  " + "".join(f"{place:>12,.0f}" for place in places)]
    for curve in picture.curves:
        cells = [value_at(curve.points, place) for place in places]
        texts = ["–" if cell is None else f"{cell:.1f}" for cell in cells]
        rows.append(f"{curve.label:{width}}  " + "".join(f"{text:>12}" for text in texts))
    return rows


def value_at(points: Points, place: float) -> float | None:
    """The last score at or before a place; None where the curve has ended or not begun."""
    before = [(x, y) for x, y in points if x <= place]
    if not before or points[-1][0] < 0.9 * place:
        return None
    return before[-1][1]


def figure(pictures: list[Picture]) -> Figure:
    """The curves of all stages that train, side by side."""
    with plots.style():
        found, axes = plt.subplots(1, len(pictures), figsize=(7.6, 3.0), squeeze=False)
        for ax, picture in zip(axes[0], pictures, strict=True):
            for curve in picture.curves:
                xs = [x / 1000 for x, _ in curve.points]
                ax.plot(xs, [y for _, y in curve.points], label=curve.label)
            ax.axhline(picture.threshold, color="#777777", lw=1, ls="--")
            ax.set(title=picture.title, xlabel=f"{picture.x}, thousands")
            longest = max((x for x, _ in picture.curves[0].points), default=0.0) / 1000
            if longest:
                ax.set_xlim(0, longest)
        axes[0][0].set_ylabel(pictures[0].y)
        axes[0][0].legend(fontsize=8)
    return found


def alt_of(pictures: list[Picture]) -> str:
    """What the figure shows, for those who cannot see it."""
    parts = []
    for picture in pictures:
        ends = [f"{c.label} ends at {c.points[-1][1]:.0f}" for c in picture.curves if c.points]
        parts.append(f"{picture.title}: {', '.join(ends)}; {picture.threshold:g} passes")
    return "Learning curves. " + ". ".join(parts) + "."


def pictures_of(verdict: Verdict) -> list[Picture]:
    """The curves of the stages that train, with those of the book's own file."""
    found = [beside(verdict.build, finding) for finding in verdict.findings]
    return [picture for picture in found if picture is not None]


def write(verdict: Verdict, folder: Path) -> list[Path]:
    """Write figure, films and posters into a folder; the paths that were written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    pictures = pictures_of(verdict)
    if pictures:
        buffer = io.BytesIO()
        drawn = figure(pictures)
        drawn.savefig(buffer, format="png")
        plt.close(drawn)
        written.append(folder / "curves.png")
        written[-1].write_bytes(buffer.getvalue())
    for finding in verdict.findings:
        if finding.film is not None:
            for name, data in (("webp", finding.film.webp), ("poster.webp", finding.film.poster)):
                written.append(folder / f"{finding.title}.{name}")
                written[-1].write_bytes(data)
    return written
