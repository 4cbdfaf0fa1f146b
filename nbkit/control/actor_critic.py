"""Policies for control: a body, a head that chooses, a head that values.

The trainer asks a policy for two things only (``Policy``), so any network can take this one's
place. A distribution draws from a generator that is passed in; PyTorch's own would use a global.
"""

import math
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, Protocol

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from nbkit._inputs import check_choice, check_number

_ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


class ActionDistribution(Protocol):
    """What a policy's head returns for B observations."""

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw one action an observation."""
        ...

    def mode(self) -> Tensor:
        """Return the most likely action of each."""
        ...

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return log pi(a|s), (B,)."""
        ...

    def entropy(self) -> Tensor:
        """Return the entropy in nats, (B,)."""
        ...


class Policy(Protocol):
    """What the trainer relies on."""

    def __call__(self, observations: Tensor) -> tuple[ActionDistribution, Tensor]:
        """Map observations (B, O) to a distribution and the values (B,)."""
        ...

    def act(self, observations: Tensor) -> ActionDistribution:
        """Map observations (B, O) to the distribution alone."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """Return the trainable parameters, as ``torch.nn.Module`` does."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint stores, as ``torch.nn.Module`` does."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any:
        """Put back what ``state_dict`` returned."""
        ...


class Categorical:
    """One of A choices.

    Args:
        logits: (B, A), need not be normalised.

    """

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    @cached_property
    def log_probabilities(self) -> Tensor:
        """(B, A), normalised."""
        return self.logits.log_softmax(-1)

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw (B,) int64 by the Gumbel trick: the largest of logit - log(exponential noise)."""
        noise = torch.empty_like(self.logits).exponential_(generator=generator)
        return (self.logits - noise.log_()).argmax(-1)

    def mode(self) -> Tensor:
        """Return the most likely choice, (B,)."""
        return self.logits.argmax(-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return log pi(a|s) of actions (B,) int64, (B,)."""
        return self.log_probabilities.gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return the entropy in nats, (B,)."""
        return -(self.log_probabilities.exp() * self.log_probabilities).sum(-1)


class DiagonalGaussian:
    """Independent normal distributions, unbounded.

    Args:
        mean: (B, A).
        log_std: (A,), the same for every observation.

    """

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        self.mean, self.log_std = mean, log_std

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw (B, A) float."""
        noise = torch.empty_like(self.mean).normal_(generator=generator)
        return self.mean + noise * self.log_std.exp()

    def mode(self) -> Tensor:
        """Return the mean, (B, A)."""
        return self.mean

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return the log-density of actions (B, A) in all dimensions together, (B,)."""
        standardised = (actions - self.mean) * (-self.log_std).exp()
        return -(0.5 * standardised.square() + self.log_std + _LOG_SQRT_2PI).sum(-1)

    def entropy(self) -> Tensor:
        """Return the differential entropy in nats, (B,); negative where the std is small."""
        each = self.log_std + _LOG_SQRT_2PI + 0.5
        return each.sum().expand(self.mean.shape[0])


def bounded(actions: Tensor, action_space: Any, form: Literal["clip", "scale"] = "clip") -> Tensor:
    """Bring what a Gaussian drew within the environment's bounds.

    The log-probability stays that of the action that was drawn: for the agent, the bounds are part
    of the environment. (To take the density of the clipped action instead would be wrong: the two
    bounds carry point masses.)

    Args:
        actions: (N, A) from a Gaussian; (N,) choices pass unchanged.
        action_space: Discrete or Box of one environment.
        form: "clip" to the bounds; "scale" clips to [-1, 1] and maps that to the bounds, so that a
            standard deviation of 1 suits any unit.

    Raises:
        ValueError: "scale" with an infinite bound, or an unknown form.

    """
    check_choice("form", form, ("clip", "scale"))
    if isinstance(action_space, spaces.Discrete):
        return actions
    low, high = torch.from_numpy(action_space.low), torch.from_numpy(action_space.high)
    if form == "clip":
        return torch.minimum(torch.maximum(actions, low), high)
    if not bool(torch.isfinite(low).all() & torch.isfinite(high).all()):
        raise ValueError(f"form 'scale' needs finite bounds; the action space is {action_space}")
    return low + 0.5 * (actions.clamp(-1.0, 1.0) + 1.0) * (high - low)


class ActorCritic(nn.Module):
    """Fully connected bodies with a policy head and a value head.

    Args:
        observation_size: O.
        action_space: Discrete (a categorical head) or Box (a Gaussian head whose log-std is a free
            parameter, not a function of the observation).
        width: of each hidden layer.
        layers: hidden layers.
        shared: one body with two heads; False: a body each.
        orthogonal: orthogonal weights with gain sqrt(2), 0.01 in the policy head, 1 in the value
            head, biases 0 (Huang et al., 2022); False: PyTorch's own.
        activation: "tanh" or "relu".
        log_std: the first log-std of a Gaussian head.
        generator: of the first weights; None: PyTorch's global one.

    Raises:
        ValueError: sizes below 1, an unknown activation, a space of another kind.

    """

    def __init__(
        self,
        observation_size: int,
        action_space: Any,
        *,
        width: int = 64,
        layers: int = 2,
        shared: bool = True,
        orthogonal: bool = True,
        activation: str = "tanh",
        log_std: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_number("observation_size", observation_size, 1)
        check_number("width", width, 1)
        check_number("layers", layers, 1)
        check_choice("activation", activation, sorted(_ACTIVATIONS))
        self.discrete = isinstance(action_space, spaces.Discrete)
        if self.discrete:
            outputs = int(action_space.n)
        elif isinstance(action_space, spaces.Box) and len(action_space.shape) == 1:
            outputs = int(np.prod(action_space.shape))
            self.log_std = nn.Parameter(torch.full((outputs,), float(log_std)))
        else:
            raise ValueError(f"action_space must be Discrete or a Box of one axis: {action_space}")
        sizes = [observation_size, *[width] * layers]
        self.body = _body(sizes, _ACTIVATIONS[activation])
        self.value_body = None if shared else _body(sizes, _ACTIVATIONS[activation])
        self.policy_head = nn.Linear(width, outputs)
        self.value_head = nn.Linear(width, 1)
        self._initialise(orthogonal, generator)

    def _initialise(self, orthogonal: bool, generator: torch.Generator | None) -> None:
        for module in self.modules():
            if not isinstance(module, nn.Linear):
                continue
            if orthogonal:
                gain = {self.policy_head: 0.01, self.value_head: 1.0}.get(module, math.sqrt(2))
                nn.init.orthogonal_(module.weight, gain, generator=generator)
                nn.init.zeros_(module.bias)
            else:
                nn.init.kaiming_uniform_(module.weight, math.sqrt(5), generator=generator)
                bound = 1 / math.sqrt(module.in_features)
                nn.init.uniform_(module.bias, -bound, bound, generator=generator)

    def forward(self, observations: Tensor) -> tuple[Categorical | DiagonalGaussian, Tensor]:
        """Map observations (B, O) to a distribution and the values (B,)."""
        hidden = self.body(observations)
        for_value = hidden if self.value_body is None else self.value_body(observations)
        return self._distribution(hidden), self.value_head(for_value).squeeze(-1)

    def act(self, observations: Tensor) -> Categorical | DiagonalGaussian:
        """Map observations (B, O) to the distribution alone."""
        return self._distribution(self.body(observations))

    def _distribution(self, hidden: Tensor) -> Categorical | DiagonalGaussian:
        scores = self.policy_head(hidden)
        return Categorical(scores) if self.discrete else DiagonalGaussian(scores, self.log_std)


def make_actor_critic(env: Any, *, seed: int, **settings: Any) -> ActorCritic:
    """Make a network that fits an environment, its first weights drawn from a seed.

    Args:
        env: a ``ControlEnv``.
        seed: of the first weights.
        **settings: of ``ActorCritic``.

    """
    generator = torch.Generator().manual_seed(seed)
    return ActorCritic(env.observation_size, env.action_space, generator=generator, **settings)


def _body(sizes: list[int], activation: type[nn.Module]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers)
