"""The capstone in words: the board, one run, and where a learner stands."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from bookkit.builds.capstone.board import Entry
from bookkit.builds.capstone.judge import Outcome
from bookkit.builds.report import shown

METHOD = 70  # characters of a method in the table


def as_text(entries: Sequence[Entry]) -> str:
    """The board, a line an entry."""
    width = max((len(entry.name) for entry in entries), default=5)
    head = f"{'entry':{width}}  {'held-out accuracy':>17}  {'tokens':>7}  {'s':>5}  method"
    lines = [head]
    for entry in entries:
        tokens, seconds = fmean(entry.tokens), fmean(entry.processor_seconds)
        told = shown(entry.method[:METHOD])
        figures = f"{entry.said():>17}  {tokens:7,.0f}  {seconds:5.0f}"
        lines.append(f"{entry.name:{width}}  {figures}  {told}")
    return "\n".join(lines)


def of_run(outcome: Outcome) -> str:
    """One pupil: accuracy, tokens, time, some answers."""
    return "\n".join(_of_run(outcome))


def _of_run(outcome: Outcome) -> Iterator[str]:
    yield f"{outcome.after:.1%} of the held-out answers are right, {outcome.before:.1%} were before"
    yield (
        f"  {outcome.tokens:,} tokens of marks, {outcome.processor_seconds:.0f} s of processor time"
    )
    yield from (f"  {line}" for line in outcome.samples)
    yield from (f"  to look at: {shown(line)}" for line in outcome.looks)
    if "unprotected" in outcome.layers:
        yield "  This machine has no sandbox: the file ran with the powers of your user."
