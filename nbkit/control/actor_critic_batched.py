"""Two separate bodies computed side by side: each layer is one batched product instead of two.

For small networks the time of a gradient step is the number of operations, not their size. The
function is that of ``ActorCritic(shared=False)``: the tests copy the weights over and compare.
"""

from typing import Any

import torch
from torch import Tensor, nn

from nbkit._inputs import check_choice
from nbkit.control.actor_critic import ActorCritic, Categorical, DiagonalGaussian

_ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu}


class BatchedActorCritic(nn.Module):
    """A body with a policy head and a body with a value head, of one shape, in one product.

    Weights are (2, inputs, outputs), index 0 the policy's, 1 the value's. The last layer is as wide
    as the policy's head; of the value's outputs the first is used, the others have no gradient.

    Args:
        separate: whose weights are copied; ``shared=False``, "tanh" or "relu".
        activation: of ``separate``.

    Raises:
        ValueError: ``separate`` has one shared body, or an unknown activation.

    """

    def __init__(self, separate: ActorCritic, *, activation: str = "tanh") -> None:
        super().__init__()
        if separate.value_body is None:
            raise ValueError("separate must have two bodies: make it with shared=False")
        check_choice("activation", activation, sorted(_ACTIVATIONS))
        self.activation = _ACTIVATIONS[activation]
        self.discrete = separate.discrete
        if not self.discrete:
            self.log_std = nn.Parameter(separate.log_std.detach().clone())
        policy = [layer for layer in separate.body if isinstance(layer, nn.Linear)]
        value = [layer for layer in separate.value_body if isinstance(layer, nn.Linear)]
        pairs = [*zip(policy, value, strict=True), (separate.policy_head, separate.value_head)]
        # Plain lists beside the registered names: nn.ParameterList costs more than a small product.
        self.weights: list[nn.Parameter] = []
        self.biases: list[nn.Parameter] = []
        for i, (ours, theirs) in enumerate(pairs):
            weight = torch.zeros(2, ours.in_features, ours.out_features)
            bias = torch.zeros(2, 1, ours.out_features)
            weight[0], bias[0] = ours.weight.detach().T, ours.bias.detach()
            weight[1, :, : theirs.out_features] = theirs.weight.detach().T
            bias[1, :, : theirs.out_features] = theirs.bias.detach()
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(bias))
            self.register_parameter(f"weight_{i}", self.weights[i])
            self.register_parameter(f"bias_{i}", self.biases[i])

    def forward(self, observations: Tensor) -> tuple[Categorical | DiagonalGaussian, Tensor]:
        """Map observations (B, O) to a distribution and the values (B,)."""
        hidden = observations.expand(2, *observations.shape)
        *body, (weight, bias) = zip(self.weights, self.biases, strict=True)
        for w, b in body:
            hidden = self.activation(torch.baddbmm(b, hidden, w))
        scores, values = torch.baddbmm(bias, hidden, weight).unbind()
        return self._distribution(scores), values[:, 0]

    def act(self, observations: Tensor) -> Categorical | DiagonalGaussian:
        """Map observations (B, O) to the distribution alone."""
        hidden = observations
        *body, (weight, bias) = zip(self.weights, self.biases, strict=True)
        for w, b in body:
            hidden = self.activation(torch.addmm(b[0], hidden, w[0]))
        return self._distribution(torch.addmm(bias[0], hidden, weight[0]))

    def _distribution(self, scores: Tensor) -> Categorical | DiagonalGaussian:
        return Categorical(scores) if self.discrete else DiagonalGaussian(scores, self.log_std)


def make_batched_actor_critic(
    env: Any, *, seed: int, activation: str = "tanh", **settings: Any
) -> BatchedActorCritic:
    """Make the batched form of ``make_actor_critic(env, seed=seed, shared=False, ...)``.

    Args:
        env: a ``ControlEnv``.
        seed: of the first weights.
        activation: "tanh" or "relu".
        **settings: of ``ActorCritic``.

    """
    generator = torch.Generator().manual_seed(seed)
    separate = ActorCritic(
        env.observation_size,
        env.action_space,
        shared=False,
        activation=activation,
        generator=generator,
        **settings,
    )
    return BatchedActorCritic(separate, activation=activation)
