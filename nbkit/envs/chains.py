"""Small chains of states whose values are known exactly, and TD(lambda) to learn them.

A chain here is a Markov reward process: the policy is already part of its transitions. It is the
smallest world in which returns, values and bootstrapping mean what they mean in a large one.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from nbkit._inputs import check_floating, check_integers, check_number, check_same_shape


@dataclass(frozen=True)
class Episode:
    """What one walk left behind; T steps.

    Attributes:
        states: (T,) int64, the states that were left.
        rewards: (T,) reward of each step.
        last_state: where the walk stood when it was cut off; None if it ended by itself.
    """

    states: Tensor
    rewards: Tensor
    last_state: int | None


@dataclass(frozen=True)
class Chain:
    """A Markov reward process with S states; the last column of both tables is the end.

    Attributes:
        transitions: (S, S+1), rows add to 1.
        rewards: (S, S+1), paid on the way from a state (row) to the next (column).
    """

    transitions: Tensor
    rewards: Tensor

    def __post_init__(self) -> None:
        """Check the tables.

        Raises:
            ValueError: a shape that does not fit, or rows that do not add to 1.
        """
        check_floating("transitions", self.transitions, ndim=2)
        states, columns = self.transitions.shape
        if columns != states + 1:
            raise ValueError(
                f"transitions must be (S, S+1), the end last; got shape {(states, columns)}"
            )
        check_same_shape("rewards", self.rewards, "transitions", self.transitions)
        totals = self.transitions.sum(1)
        if not torch.allclose(totals, torch.ones_like(totals)) or bool(
            (self.transitions < 0).any()
        ):
            raise ValueError(f"transitions must hold probabilities; rows add to {totals.tolist()}")

    def values(self, gamma: float) -> Tensor:
        """Expected discounted reward from each state, (S,): the solution of Bellman's equation.

        V = r + gamma P V is linear, so it is solved, not iterated (Sutton and Barto, 2nd edition,
        eq. 4.4).

        Raises:
            ValueError: `gamma` is out of range, or is 1 and the chain may never end.
        """
        check_number("gamma", gamma, 0.0, 1.0)
        expected = (self.transitions * self.rewards).sum(1)
        onward = gamma * self.transitions[:, :-1]
        system = torch.eye(len(expected), dtype=expected.dtype, device=expected.device) - onward
        solution, info = torch.linalg.solve_ex(system, expected)
        if int(info) != 0:
            raise ValueError("gamma must be below 1 for a chain that may never end; got 1")
        return solution

    def episode(
        self, start: int, *, generator: torch.Generator, max_steps: int | None = None
    ) -> Episode:
        """Walk from `start` to the end, or until `max_steps` steps are taken.

        Raises:
            ValueError: `start` is no state.
        """
        states = len(self.transitions)
        if not 0 <= start < states:
            raise ValueError(f"start must be a state, 0 to {states - 1}; got {start}")
        visited: list[int] = []
        rewards: list[float] = []
        state = start
        while state < states and (max_steps is None or len(visited) < max_steps):
            draw = torch.multinomial(self.transitions[state], 1, generator=generator)
            successor = int(draw)
            visited.append(state)
            rewards.append(float(self.rewards[state, successor]))
            state = successor
        dtype = self.rewards.dtype
        last = None if state == states else state
        return Episode(torch.tensor(visited), torch.tensor(rewards, dtype=dtype), last)


def coin_chain(states: int = 4, go: float = 0.5, reward: float = 8.0) -> Chain:
    """A row of states: each step goes on with probability `go` or ends with nothing.

    The last state ends the walk in any case and pays `reward`. With the defaults the values are
    1, 2, 4 and 8 without a discount.

    Raises:
        ValueError: no state, or a `go` that is no probability.
    """
    if states < 1:
        raise ValueError(f"states must be at least 1; got {states}")
    check_number("go", go, 0.0, 1.0)
    transitions = torch.zeros(states, states + 1, dtype=torch.float64)
    transitions[:-1, states] = 1.0 - go
    transitions[torch.arange(states - 1), torch.arange(1, states)] = go
    transitions[states - 1, states] = 1.0
    rewards = torch.zeros_like(transitions)
    rewards[states - 1, states] = reward
    return Chain(transitions, rewards)


def lambda_returns(rewards: Tensor, next_values: Tensor, *, gamma: float, lam: float) -> Tensor:
    """Lambda-returns of one episode (Sutton and Barto, 2nd edition, eq. 12.3).

    G[t] = r[t] + gamma ((1 - lam) V[t+1] + lam G[t+1]), begun behind the last step with its V.

    Args:
        rewards: (T,).
        next_values: (T,), the value of the state that each step led to; 0 behind an end.
        gamma: the discount, 0 to 1.
        lam: 0 bootstraps after one step, 1 never does.

    Returns:
        (T,).

    Raises:
        ValueError: shapes that do not fit or parameters out of range.
    """
    check_floating("rewards", rewards, ndim=1)
    check_same_shape("next_values", next_values, "rewards", rewards)
    check_number("gamma", gamma, 0.0, 1.0)
    check_number("lam", lam, 0.0, 1.0)
    if len(rewards) == 0:
        return rewards.clone()
    ahead, returns = next_values[-1], []
    for t in reversed(range(len(rewards))):
        ahead = rewards[t] + gamma * ((1 - lam) * next_values[t] + lam * ahead)
        returns.append(ahead)
    return torch.stack(returns[::-1])


def td_lambda(
    values: Tensor,
    states: Tensor,
    rewards: Tensor,
    *,
    next_value: float = 0.0,
    gamma: float,
    lam: float,
    rate: float,
) -> Tensor:
    """Table of values after one episode of TD(lambda), in its backward view.

    Every state keeps a trace of how lately it was visited, and each TD error is handed back along
    the traces. The corrections are added up and applied when the episode is over; then they are
    those of the lambda-return, exactly (Sutton and Barto, 2nd edition, section 12.2).

    Args:
        values: (S,), the table before the episode; it is not changed.
        states: (T,) int64, the states that were left.
        rewards: (T,).
        next_value: value behind the last step: 0 if the episode ended, V if it was cut off.
        gamma: the discount, 0 to 1.
        lam: the trace parameter, 0 to 1.
        rate: the step size.

    Returns:
        (S,).

    Raises:
        ValueError: shapes that do not fit or parameters out of range.
    """
    check_floating("values", values, ndim=1)
    check_floating("rewards", rewards, ndim=1)
    check_integers("states", states, ndim=1)
    if states.shape != rewards.shape:
        raise ValueError(
            f"states must have the shape of rewards, {tuple(rewards.shape)}; "
            f"got {tuple(states.shape)}"
        )
    check_number("gamma", gamma, 0.0, 1.0)
    check_number("lam", lam, 0.0, 1.0)
    check_number("rate", rate, 0.0)
    before = torch.cat([values[states], values.new_tensor([next_value])])
    traces, correction = torch.zeros_like(values), torch.zeros_like(values)
    for t, state in enumerate(states.tolist()):
        traces = gamma * lam * traces
        traces[state] += 1
        correction += (rewards[t] + gamma * before[t + 1] - before[t]) * traces
    return values + rate * correction
