"""Several rewards for one completion: a weighted sum whose parts stay visible."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Reward = Callable[..., float]


@dataclass(frozen=True)
class Composed:
    """The total, and each part before its weight."""

    total: float
    parts: Mapping[str, float]


class WeightedRewards:
    """A weighted sum of named rewards, called as each of them is.

    Args:
        rewards: name to function; each is called with the same arguments and returns a number.
        weights: name to weight; a weight of 0 keeps a part on record without rewarding it.
        gate: name of a part that must be above 0 for the others to count, or None. With the format
            as the gate, a right answer in the wrong form earns nothing.

    Raises:
        ValueError: names that do not match, or a weight that is not finite.

    """

    def __init__(
        self,
        rewards: Mapping[str, Reward],
        weights: Mapping[str, float],
        *,
        gate: str | None = None,
    ) -> None:
        if not rewards or set(rewards) != set(weights):
            raise ValueError(
                f"weights must name the rewards {sorted(rewards)}; they name {sorted(weights)}"
            )
        for name, weight in weights.items():
            if not math.isfinite(weight):
                raise ValueError(f"weights[{name!r}] must be finite; got {weight}")
        if gate is not None and gate not in rewards:
            raise ValueError(f"gate must be one of {sorted(rewards)}; got {gate!r}")
        self.rewards, self.weights, self.gate = dict(rewards), dict(weights), gate

    def __call__(self, *args: Any, **kwargs: Any) -> Composed:
        """Score one completion. An exception of a part goes through: no part is scored 0 for it.

        Raises:
            ValueError: a part is not a finite number.

        """
        parts = {}
        for name, reward in self.rewards.items():
            parts[name] = float(reward(*args, **kwargs))
            if not math.isfinite(parts[name]):
                raise ValueError(f"reward {name!r} gave {parts[name]}")
        closed = self.gate is not None and not parts[self.gate] > 0
        counted = [self.gate] if closed and self.gate else list(parts)
        return Composed(sum(self.weights[name] * parts[name] for name in counted), parts)
