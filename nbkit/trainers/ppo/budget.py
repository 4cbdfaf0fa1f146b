"""How long a run of PPO goes on: so many updates, or until its time is up."""

import time

from nbkit._inputs import check_number
from nbkit.runs.ranks import first_rank_s


class Budget:
    """The updates and the minutes that a run may spend.

    The clocks of ranks differ, and a rank that stopped alone would leave the others waiting: all of
    them go by that of the first.

    Args:
        updates: at most.
        minutes: the run ends after so long; 0: after its updates.

    """

    def __init__(self, updates: int, minutes: float = 0.0) -> None:
        check_number("updates", updates, 1)
        check_number("minutes", minutes, 0.0)
        self.updates, self.minutes = updates, minutes
        self.go_on_from(0.0)

    def go_on_from(self, seconds: float) -> None:
        """Start the clock; so many seconds are spent already."""
        self._started = time.perf_counter() - seconds

    @property
    def seconds(self) -> float:
        """Spent so far, those before a stop included."""
        return time.perf_counter() - self._started

    def left(self, updates: int) -> float:
        """The share that is left after so many updates, by updates or by the clock: from 1 to 0.

        Every rank calls it.
        """
        share = 1.0 - updates / self.updates
        if self.minutes:
            share = min(share, 1.0 - self.seconds / (60 * self.minutes))
        return max(0.0, first_rank_s(share))
