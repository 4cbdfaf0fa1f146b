"""The still picture of the interactive figure `async-timeline`: two schemes on the same lengths."""

from __future__ import annotations

import numpy as np

from bookkit.site.pictures.svg import box, drawing, line, words
from nbkit.asynchronous.events import simulate
from nbkit.asynchronous.machines import SYNCHRONOUS, Machines, Scheme
from nbkit.asynchronous.outcome import Outcome

# Tokens of 24 groups of two completions, drawn once from a log-normal distribution.
LENGTHS = (
    25, 16, 2, 12, 4, 11, 2, 20, 6, 5, 12, 20, 4, 9, 6, 5,
    26, 7, 2, 10, 3, 6, 12, 3, 3, 17, 3, 5, 18, 5, 23, 26,
    5, 3, 6, 3, 3, 14, 2, 9, 6, 6, 3, 60, 1, 36, 4, 21,
)  # fmt: skip
PROMPTS = 4
MACHINES = Machines(samplers=2, trainers=1, slots=4, token_seconds=1.0, train_token_seconds=0.12)
SCHEMES = (("synchronous", SYNCHRONOUS), ("in flight, η = 2", Scheme(staleness=2, in_flight=True)))
LEFT, RIGHT, TOP, LANE, TRAINER = 62.0, 12.0, 22.0, 9.0, 16.0
WIDTH, PANEL = 660.0, 146.0
TONES = ("build", "scale", "muted")  # of the versions, in turn


def run(scheme: Scheme) -> Outcome:
    """What the package's simulation makes of the lengths."""
    return simulate(np.array(LENGTHS).reshape(-1, 2), PROMPTS, MACHINES, scheme)


def async_timeline() -> str:
    """Slots and trainer in time: above the synchronous scheme, below updates in flight."""
    outcomes = [(name, run(scheme)) for name, scheme in SCHEMES]
    lasts = max(outcome.seconds for _, outcome in outcomes)

    def to_x(seconds: float) -> float:
        return LEFT + seconds / lasts * (WIDTH - LEFT - RIGHT)

    shapes: list[str] = []
    for at, (name, outcome) in enumerate(outcomes):
        top = at * PANEL + TOP
        title = f"{name}: {outcome.seconds:.0f} s for {len(outcome.updates)} updates"
        shapes.append(words(LEFT, top - 8, title, size=12, anchor="start"))
        for span in outcome.spans:
            y = top + (span.device * MACHINES.slots + span.slot) * LANE
            tone = TONES[span.version % len(TONES)]
            width = to_x(span.end) - to_x(span.start)
            shapes.append(box(to_x(span.start), y, width, LANE - 1.5, tone, radius=0))
        lanes = MACHINES.samplers * MACHINES.slots * LANE
        for update in outcome.updates:
            width = to_x(update.end) - to_x(update.start) - 0.6
            y = top + lanes + 6
            shapes.append(box(to_x(update.start), y, width, TRAINER, "break", radius=0))
        shapes.append(words(LEFT - 8, top + lanes / 2, "slots", size=11, anchor="end"))
        shapes.append(words(LEFT - 8, top + lanes + 18, "trainer", size=11, anchor="end"))
        end = to_x(outcome.seconds)
        shapes.append(line([(end, top - 4), (end, top + lanes + TRAINER + 10)], "ink", 1.2, "4 3"))
    return drawing(*shapes, width=WIDTH, height=len(outcomes) * PANEL)
