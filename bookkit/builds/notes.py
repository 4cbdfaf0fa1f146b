"""What the learner's file logs of its updates, and what looks wrong in it."""

import math
from itertools import islice
from typing import Any

from nbkit.trainers.ppo.diagnostics import HEALTHY, read

KEPT, FIGURES, NAME = 5000, 20, 40  # updates, figures of one, letters of a name


class Notes:
    """The figures of each update, as the learner's file has logged them; shown, never judged."""

    def __init__(self) -> None:
        self.history: list[dict[str, float]] = []

    def take(self, data: dict[str, Any]) -> None:
        """Keep the figures of one update."""
        numbers = {
            name[:NAME]: value
            for name, value in islice(data.items(), FIGURES)
            if isinstance(value, float)
        }
        if numbers and len(self.history) < KEPT:
            self.history.append(numbers)

    def plain(self, *, last: int = 10) -> list[str]:
        """The mean of each figure over the last updates, as one sentence; none where none is."""
        recent = self.history[-last:]
        names = (
            [name for name in recent[0] if all(name in step for step in recent)] if recent else []
        )
        means = [f"{name} {sum(step[name] for step in recent) / len(recent):.3g}" for name in names]
        return [f"your last updates: {', '.join(means)}"] if means else []

    def findings(self, *, last: int = 10, skip: tuple[str, ...] = ()) -> list[str]:
        """Sentences of chapter 12's dashboard on the figures that were logged."""
        logged = [
            name
            for name in HEALTHY
            if all(name in step for step in self.history[-last:]) and name not in skip
        ]
        if not self.history:
            return [
                "nothing was logged: `log(kl=…, ratio_error=…)` once an update lets the judge look"
            ]
        broken = [
            f"{name} is not a number in the last updates"
            for name in logged
            if name != "explained_variance"
            and any(math.isnan(step[name]) for step in self.history[-last:])
        ]
        return broken or read(self.history, last=last, names=logged)
