"""Probe environments: worlds so small that a failure says where the fault is.

Run them in order before any real task. Each asks for one ability more than the one before, and its
message names the parts of the agent that only this ability needs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor

from nbkit._inputs import check_choice, check_number
from nbkit.control.actor_critic import Policy
from nbkit.control.environments import ControlEnv, Transition

GAMMA = 0.5
TOLERANCE = 0.15
TWO_CHOICES = spaces.Discrete(2)
ONE_NUMBER = spaces.Box(-1.0, 1.0, (1,))


class ProbeFailed(AssertionError):  # noqa: N818 - a verdict
    """The agent did not learn what the probe asks for; the message says where to look."""


class ProbeEnv:
    """N copies of a world with one number as observation and episodes of a fixed length.

    Args:
        num_envs: N.
        length: steps of an episode.
        reward: maps observations (N,), step numbers (N,) and actions to rewards (N,).
        observation: "zero"; "sign": -1 or 1, drawn for each episode; "time": the step number.
        ends: whether the last step is terminal or a time limit.
        action_space: Discrete(2), or a Box of one axis.

    """

    observation_size = 1

    def __init__(
        self,
        num_envs: int,
        *,
        length: int,
        reward: Callable[[Tensor, Tensor, Tensor], Tensor],
        observation: str = "zero",
        ends: str = "terminated",
        action_space: Any = TWO_CHOICES,
    ) -> None:
        check_number("num_envs", num_envs, 1)
        check_number("length", length, 1)
        check_choice("observation", observation, ("zero", "sign", "time"))
        check_choice("ends", ends, ("terminated", "truncated"))
        self.num_envs, self.length, self.reward = num_envs, length, reward
        self.observation, self.ends, self.action_space = observation, ends, action_space
        self.generator = torch.Generator()
        self.time = torch.zeros(num_envs, dtype=torch.int64)
        self.sign = torch.zeros(num_envs)
        self.ended = torch.zeros(num_envs, dtype=torch.bool)

    def reset(self, seed: int) -> Tensor:
        """Begin new episodes everywhere; return the observations (N, 1)."""
        self.generator.manual_seed(seed)
        self.time.zero_()
        self.ended.zero_()
        self._draw(torch.ones_like(self.ended))
        return self._observe()

    def step(self, actions: Tensor) -> Transition:
        """Step all; where an episode ended the step before, begin a new one (a dummy step)."""
        valid = ~self.ended
        rewards = self.reward(self._observe()[:, 0], self.time, actions)
        self.time = torch.where(valid, self.time + 1, 0)
        self._draw(~valid)
        self.ended = valid & (self.time >= self.length)
        never = torch.zeros_like(valid)
        terminal = self.ends == "terminated"
        return Transition(
            self._observe(),
            torch.where(valid, rewards, 0.0),
            self.ended.clone() if terminal else never,
            never if terminal else self.ended.clone(),
            valid,
        )

    def _draw(self, where: Tensor) -> None:
        coins = torch.randint(0, 2, (self.num_envs,), generator=self.generator) * 2.0 - 1.0
        self.sign = torch.where(where, coins, self.sign)

    def _observe(self) -> Tensor:
        if self.observation == "sign":
            return self.sign[:, None].clone()
        if self.observation == "time":
            return self.time[:, None].float()
        return torch.zeros(self.num_envs, 1)

    def get_state(self) -> dict[str, Any]:
        """Return everything that changes."""
        return {
            "time": self.time.clone(),
            "sign": self.sign.clone(),
            "ended": self.ended.clone(),
            "generator": self.generator.get_state(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Put back what ``get_state`` returned."""
        self.time, self.sign = state["time"].clone(), state["sign"].clone()
        self.ended = state["ended"].clone()
        self.generator.set_state(state["generator"])

    def close(self) -> None:
        """Nothing to free."""


@dataclass(frozen=True)
class Probe:
    """One world, one question.

    Attributes:
        name: of the probe.
        question: what an agent must be able to do.
        look: where to look when it cannot.
        make: maps N to the environment.
        errors: maps a trained policy to |what it says - what is right|, a number a case.

    """

    name: str
    question: str
    look: str
    make: Callable[[int], ControlEnv]
    errors: Callable[[Policy], dict[str, float]]

    def check(self, policy: Policy, *, tolerance: float = TOLERANCE) -> None:
        """Raise unless the trained policy answers the question.

        Args:
            policy: trained on this probe with discount ``GAMMA``.
            tolerance: largest error allowed, of values and of probabilities.

        Errors:
            ProbeFailed: names the probe, the error and where to look.

        """
        with torch.no_grad():
            wrong = self.errors(policy)
        failed = {case: error for case, error in wrong.items() if not error <= tolerance}
        if failed:
            cases = "; ".join(f"{case} is off by {error:.2f}" for case, error in failed.items())
            raise ProbeFailed(f"probe {self.name}: {cases}. Look at {self.look}.")


def _value_errors(targets: dict[float, float]) -> Callable[[Policy], dict[str, float]]:
    def errors(policy: Policy) -> dict[str, float]:
        _, values = policy(torch.tensor(list(targets))[:, None])
        pairs = zip(targets.items(), values.tolist(), strict=True)
        return {
            f"the value of observation {seen:g} (right: {right:g})": abs(value - right)
            for (seen, right), value in pairs
        }

    return errors


def _choice_errors(targets: dict[float, int]) -> Callable[[Policy], dict[str, float]]:
    def errors(policy: Policy) -> dict[str, float]:
        observations = torch.tensor(list(targets))[:, None]
        right = torch.tensor(list(targets.values()))
        probabilities = policy.act(observations).log_prob(right).exp().tolist()
        return {
            f"the probability of action {action} at observation {seen:g} (right: 1)": 1 - p
            for (seen, action), p in zip(targets.items(), probabilities, strict=True)
        }

    return errors


def _mean_error(policy: Policy) -> dict[str, float]:
    mean = float(policy.act(torch.zeros(1, 1)).mode())
    return {"the mean action (right: 0.5)": abs(mean - 0.5)}


def _one(observation: Tensor, time: Tensor, action: Tensor) -> Tensor:
    return torch.ones_like(observation)


PROBES: dict[str, Probe] = {
    probe.name: probe
    for probe in (
        Probe(
            "constant-reward",
            "one step, reward 1 whatever happens: does the value head learn 1?",
            "the value loss, its coefficient, the optimiser (does it hold the value head's "
            "parameters?) and the learning rate: nothing else is needed here",
            lambda n: ProbeEnv(n, length=1, reward=_one),
            _value_errors({0.0: 1.0}),
        ),
        Probe(
            "observation-reward",
            "one step, the reward is the observation, -1 or 1: does the value depend on it?",
            "the way of the observations: the body's input, the pairing of observations and "
            "returns in minibatches, the normaliser",
            lambda n: ProbeEnv(n, length=1, reward=lambda o, t, a: o, observation="sign"),
            _value_errors({-1.0: -1.0, 1.0: 1.0}),
        ),
        Probe(
            "two-step-discount",
            "two steps, reward 1 at the end: is the value of the first step gamma?",
            "the discount, the bootstrap from the next observation, and what stops it at a "
            "terminal state",
            lambda n: ProbeEnv(n, length=2, reward=lambda o, t, a: t.float(), observation="time"),
            _value_errors({0.0: GAMMA, 1.0: 1.0}),
        ),
        Probe(
            "truncated-reward",
            "reward 1 a step for ever, cut by a time limit of two: is the value 1 / (1 - gamma)?",
            "truncation treated as death, the observation that is bootstrapped from, or dummy "
            "steps of the autoreset that were learned from",
            lambda n: ProbeEnv(n, length=2, reward=_one, ends="truncated"),
            _value_errors({0.0: 1 / (1 - GAMMA)}),
        ),
        Probe(
            "action-reward",
            "one step, reward 1 for action 1 and -1 for action 0: does the policy choose 1?",
            "the policy loss: its sign, the advantages' sign, the log-probability of the action "
            "that was taken, and whether the policy head is trained at all",
            lambda n: ProbeEnv(n, length=1, reward=lambda o, t, a: 2.0 * a.float() - 1.0),
            _choice_errors({0.0: 1}),
        ),
        Probe(
            "action-observation-reward",
            "one step, reward 1 where the action fits the observation's sign: does it follow?",
            "the pairing of observations, actions and advantages after flattening and shuffling, "
            "and whether the policy's body sees the observation",
            lambda n: ProbeEnv(
                n,
                length=1,
                reward=lambda o, t, a: o * (2.0 * a.float() - 1.0),
                observation="sign",
            ),
            _choice_errors({-1.0: 0, 1.0: 1}),
        ),
        Probe(
            "continuous-action",
            "one step, reward -(a - 0.5) squared: does the Gaussian's mean go to 0.5?",
            "the Gaussian's log-density (the sum over dimensions, the log-std's sign), the bounds, "
            "and whether the density is that of the action that was drawn",
            lambda n: ProbeEnv(
                n,
                length=1,
                reward=lambda o, t, a: -((a[:, 0] - 0.5) ** 2),
                action_space=ONE_NUMBER,
            ),
            _mean_error,
        ),
    )
}


def run_probes(
    train: Callable[[Probe, ControlEnv], Policy], *, num_envs: int = 16
) -> dict[str, str]:
    """Train an agent on every probe; return the messages of those that failed.

    Args:
        train: makes and trains an agent in the environment with discount ``GAMMA``.
        num_envs: N.

    Returns:
        Name of the probe to its message; empty: all passed.

    """
    failures = {}
    for name, probe in PROBES.items():
        policy = train(probe, probe.make(num_envs))
        try:
            probe.check(policy)
        except ProbeFailed as failure:
            failures[name] = str(failure)
    return failures
