"""What a simulated run tells: its seconds, its idle devices, and how old its tokens were."""

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """Tokens that one slot decoded without a break, all by weights of one version.

    Attributes:
        device: which sampler, from 0.
        slot: which of its slots, from 0.
        start: seconds.
        end: seconds.
        group: whose completion.
        version: of the weights.
        tokens: how many.

    """

    device: int
    slot: int
    start: float
    end: float
    group: int
    version: int
    tokens: int


@dataclass(frozen=True)
class Update:
    """One update of the trainer.

    Attributes:
        start: seconds.
        end: seconds; then the weights have one version more.
        groups: which ones it learned from.
        tokens: of these.
        staleness: tokens by age: the version that learns less the version that sampled.

    """

    start: float
    end: float
    groups: tuple[int, ...]
    tokens: int
    staleness: Counter[int]


@dataclass(frozen=True)
class Outcome:
    """A run until the end of its last update.

    Attributes:
        seconds: of the run.
        completions: that were trained.
        updates: in order.
        spans: of the samplers, in order of their end; what ran at the end of the run is cut there.
        waiting: finished groups that were not trained.
        running: groups that were started and not finished.
        sampler_idle: share of slot-seconds in which no token was decoded. Shared devices count
            the seconds of training and of switching.
        trainer_idle: share of the run in which no update ran.
        device_idle: share of the seconds of all devices with neither; a device whose slots are
            partly empty counts in part.
        versions_in_completion: most versions of the weights in one trained completion.

    """

    seconds: float
    completions: int
    updates: tuple[Update, ...]
    spans: tuple[Span, ...]
    waiting: frozenset[int]
    running: frozenset[int]
    sampler_idle: float
    trainer_idle: float
    device_idle: float
    versions_in_completion: int

    @property
    def samples_per_second(self) -> float:
        """Trained completions a second."""
        return self.completions / self.seconds

    @property
    def trained(self) -> tuple[int, ...]:
        """Groups in the order in which they were trained."""
        return tuple(group for update in self.updates for group in update.groups)

    @property
    def staleness(self) -> Counter[int]:
        """All trained tokens by age."""
        total: Counter[int] = Counter()
        for update in self.updates:
            total.update(update.staleness)
        return total

    @property
    def oldest(self) -> int:
        """Age of the oldest trained token."""
        return max(self.staleness)

    @property
    def mean_staleness(self) -> float:
        """Mean age of a trained token."""
        total = self.staleness
        return sum(age * tokens for age, tokens in total.items()) / total.total()
