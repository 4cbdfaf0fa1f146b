"""What a nat of divergence from the reference costs: a fixed price, or one with a target."""

from typing import Any

from nbkit._inputs import check_number


class FixedKL:
    """One price for the whole run.

    Args:
        coefficient: beta, reward a nat.

    """

    def __init__(self, coefficient: float) -> None:
        check_number("coefficient", coefficient, 0.0)
        self.coefficient = coefficient

    def update(self, kl: float, sequences: int) -> None:
        """Nothing changes."""

    def state_dict(self) -> dict[str, Any]:
        """Return the price."""
        return {"coefficient": self.coefficient}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what ``state_dict`` returned."""
        self.coefficient = state["coefficient"]


class AdaptiveKL(FixedKL):
    """A price that rises while the divergence is above its target, and falls below it.

    The error e = clip(KL / target - 1, -limit, limit) multiplies the coefficient by 1 + e n /
    horizon for each batch of n sequences (Ziegler et al., arXiv:1909.08593, section 2.2).

    Args:
        coefficient: at the start, above 0.
        target: wanted divergence, nats a sequence.
        horizon: sequences over which a full error multiplies it by about exp(limit).
        limit: of the error; 0.2 in the paper.

    """

    def __init__(
        self, coefficient: float, target: float, horizon: float, limit: float = 0.2
    ) -> None:
        check_number("coefficient", coefficient, 0.0, open_low=True)
        check_number("target", target, 0.0, open_low=True)
        check_number("horizon", horizon, 0.0, open_low=True)
        check_number("limit", limit, 0.0, open_low=True)
        super().__init__(coefficient)
        self.target, self.horizon, self.limit = target, horizon, limit

    def update(self, kl: float, sequences: int) -> None:
        """Move the price by the divergence of a batch.

        Args:
            kl: nats a sequence.
            sequences: n, of the batch.

        Raises:
            ValueError: one batch could turn the price negative, and pay for divergence.

        """
        if self.limit * sequences >= self.horizon:
            raise ValueError(
                f"horizon is {self.horizon:g} sequences, but a batch has {sequences}: one step "
                f"could turn the price negative; give a horizon above {self.limit * sequences:g}"
            )
        error = min(max(kl / self.target - 1, -self.limit), self.limit)
        self.coefficient *= 1 + error * sequences / self.horizon
