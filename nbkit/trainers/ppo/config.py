"""The settings of PPO; each implementation detail is a switch, each known fault too."""

from dataclasses import dataclass
from typing import Literal

from nbkit._inputs import check_choice, check_number


@dataclass(frozen=True)
class PPOConfig:
    """Settings of a run.

    With ``epochs=1, minibatch_size=None`` this is A2C: the ratio is 1 and the clip never acts
    (arXiv:2205.09123).

    Attributes:
        total_steps: budget of real environment steps, of all environments together.
        steps: T, steps a rollout in each environment.
        gamma: discount.
        lam: trace parameter of generalised advantage estimation.
        learning_rate: of Adam.
        anneal_learning_rate: to 0, linearly over the budget.
        epochs: passes over each rollout.
        minibatch_size: rows of a gradient step; None: the whole rollout.
        shuffle: draw minibatches at random; False: in the rollout's order.
        clip: the ratio may move by this.
        anneal_clip: to 0, linearly over the budget.
        value_clip: how far a value may move from the old one; None: any distance.
        value_clip_form: "max" or "clipped", see ``nbkit.losses.value_loss``.
        value_coefficient: weight of the value loss.
        entropy_coefficient: weight of the entropy bonus.
        max_grad_norm: clip of the global gradient norm; None: none.
        adam_eps: of Adam; PyTorch's own default is 1e-8.
        advantage_normalisation: over each "minibatch", the whole "batch", or None.
        target_kl: no further epoch once the policy has moved this far, in nats; None: all epochs.
        action_bounds: how a Gaussian action is bounded, see ``nbkit.control.actor_critic.bounded``.
        normalise_observations: by running moments.
        normalise_rewards: by the running standard deviation of the discounted return.
        truncation_as_death: fault: no value behind a time limit.
        dummy_rows_in_loss: fault: autoreset's dummy steps are learned from.
        dummy_rows_in_normaliser: fault: they count in the moments of the normalisers, also of the
            advantages' (needs ``advantage_normalisation="batch"`` or a running normaliser).

    """

    total_steps: int = 100_000
    steps: int = 32
    gamma: float = 0.98
    lam: float = 0.8
    learning_rate: float = 1e-3
    anneal_learning_rate: bool = True
    epochs: int = 10
    minibatch_size: int | None = 256
    shuffle: bool = True
    clip: float = 0.2
    anneal_clip: bool = False
    value_clip: float | None = None
    value_clip_form: Literal["max", "clipped"] = "max"
    value_coefficient: float = 0.5
    entropy_coefficient: float = 0.0
    max_grad_norm: float | None = 0.5
    adam_eps: float = 1e-5
    advantage_normalisation: Literal["minibatch", "batch"] | None = "minibatch"
    target_kl: float | None = None
    action_bounds: Literal["clip", "scale"] = "clip"
    normalise_observations: bool = False
    normalise_rewards: bool = False
    truncation_as_death: bool = False
    dummy_rows_in_loss: bool = False
    dummy_rows_in_normaliser: bool = False

    def __post_init__(self) -> None:
        for name in ("total_steps", "steps", "epochs"):
            check_number(name, getattr(self, name), 1)
        for name in ("gamma", "lam"):
            check_number(name, getattr(self, name), 0.0, 1.0)
        for name in ("learning_rate", "clip", "adam_eps"):
            check_number(name, getattr(self, name), 0.0, open_low=True)
        for name in ("value_coefficient", "entropy_coefficient"):
            check_number(name, getattr(self, name), 0.0)
        for name in ("value_clip", "max_grad_norm", "target_kl"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 0.0, open_low=True)
        if self.minibatch_size is not None:
            check_number("minibatch_size", self.minibatch_size, 1)
        check_choice("value_clip_form", self.value_clip_form, ("max", "clipped"))
        check_choice(
            "advantage_normalisation", self.advantage_normalisation, ("minibatch", "batch", None)
        )
        check_choice("action_bounds", self.action_bounds, ("clip", "scale"))
        running = self.normalise_observations or self.normalise_rewards
        if self.dummy_rows_in_normaliser and not (
            running or self.advantage_normalisation == "batch"
        ):
            raise ValueError(
                "dummy_rows_in_normaliser has no effect: set advantage_normalisation='batch' or "
                "one of normalise_observations, normalise_rewards"
            )
