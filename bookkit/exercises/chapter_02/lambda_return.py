"""mdp.lambda.1: the lambda-return of an episode."""

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def lambda_return(
    rewards: Tensor, values: Tensor, last_value: float, gamma: float, lam: float
) -> Tensor:
    """Walk backwards; mix the critic's word with the return behind each step."""
    ahead: Tensor | float = last_value
    following: Tensor | float = last_value
    returns = torch.zeros_like(rewards)
    for t in reversed(range(len(rewards))):
        ahead = rewards[t] + gamma * ((1 - lam) * following + lam * ahead)
        returns[t] = ahead
        following = values[t]
    return returns


def oracle(
    rewards: list[float], values: list[float], last_value: float, gamma: float, lam: float
) -> list[float]:
    """The definition: a weighted mean of all n-step returns; the longest gets what is left."""
    steps = len(rewards)
    behind = [*values[1:], last_value]
    answer = []
    for t in range(steps):
        total, weight_left = 0.0, 1.0
        for n in range(1, steps - t + 1):
            n_step = sum(gamma**k * rewards[t + k] for k in range(n))
            n_step += gamma**n * behind[t + n - 1]
            weight = weight_left if n == steps - t else (1 - lam) * lam ** (n - 1)
            total += weight * n_step
            weight_left -= weight
        answer.append(total)
    return answer


def cases(draw: Draw) -> Case:
    """Episodes that ended (last value 0) and episodes that were cut off."""
    steps = draw.dimension()
    inputs = {
        "rewards": draw.normal(steps),
        "values": draw.normal(steps),
        "last_value": draw.choice([0.0, 2.0, -1.5]),
        "gamma": draw.choice([1.0, 0.9, 0.5]),
        "lam": draw.choice([0.0, 0.5, 0.8, 1.0]),
    }
    return Case(f"{steps} steps", inputs)


def edges() -> tuple[Case, ...]:
    """The chapter's episode, both ends of lambda, one step, a cut-off, a long row."""

    def case(
        name: str,
        rewards: list[float],
        values: list[float],
        last_value: float,
        gamma: float,
        lam: float,
    ) -> Case:
        inputs = {
            "rewards": torch.tensor(rewards, dtype=torch.float64),
            "values": torch.tensor(values, dtype=torch.float64),
            "last_value": last_value,
            "gamma": gamma,
            "lam": lam,
        }
        return Case(name, inputs)

    paid, critic = [0.0, 0.0, 0.0, 8.0], [2.0, 2.0, 2.0, 4.0]
    return (
        case("the chain of the chapter", paid, critic, 0.0, 0.5, 0.5),
        case("lambda 0", paid, critic, 0.0, 0.5, 0.0),
        case("lambda 1", paid, critic, 0.0, 0.5, 1.0),
        case("one step", [3.0], [1.0], 0.0, 0.9, 0.5),
        case("cut off", [1.0, 2.0, -1.0], [5.0, 4.0, 3.0], 10.0, 0.9, 0.7),
        case("one step, cut off", [1.0], [2.0], 10.0, 0.5, 0.5),
        case("gamma 0", [1.0, 2.0], [3.0, 4.0], 5.0, 0.0, 0.5),
        case("a long row", [1.0] * 100, [0.5] * 100, 0.0, 1.0, 0.9),
    )


def _mix(
    rewards: Tensor, behind: Tensor, begin: Tensor, gamma: float, lam: float, decay: float
) -> Tensor:
    returns, ahead = torch.zeros_like(rewards), begin
    for t in reversed(range(len(rewards))):
        ahead = rewards[t] + gamma * (1 - lam) * behind[t] + decay * ahead
        returns[t] = ahead
    return returns


def _behind(values: Tensor, last_value: float) -> Tensor:
    return torch.cat([values[1:], values.new_tensor([last_value])])


def _advantage(rewards: Tensor, values: Tensor, last: float, gamma: float, lam: float) -> Tensor:
    return lambda_return(rewards, values, last, gamma, lam) - values


def _cut_is_end(rewards: Tensor, values: Tensor, last: float, gamma: float, lam: float) -> Tensor:
    return lambda_return(rewards, values, 0.0, gamma, lam)


def _own_value(rewards: Tensor, values: Tensor, last: float, gamma: float, lam: float) -> Tensor:
    return _mix(rewards, values, values.new_tensor(last), gamma, lam, gamma * lam)


def _exchanged(rewards: Tensor, values: Tensor, last: float, gamma: float, lam: float) -> Tensor:
    return lambda_return(rewards, values, last, gamma, 1 - lam)


def _no_gamma_in_trace(
    rewards: Tensor, values: Tensor, last: float, gamma: float, lam: float
) -> Tensor:
    return _mix(rewards, _behind(values, last), values.new_tensor(last), gamma, lam, lam)


def _critic_in_full(
    rewards: Tensor, values: Tensor, last: float, gamma: float, lam: float
) -> Tensor:
    behind, returns = _behind(values, last), torch.zeros_like(rewards)
    ahead = values.new_zeros(())
    for t in reversed(range(len(rewards))):
        ahead = rewards[t] + gamma * behind[t] + gamma * lam * ahead
        returns[t] = ahead
    return returns


def _begun_at_zero(
    rewards: Tensor, values: Tensor, last: float, gamma: float, lam: float
) -> Tensor:
    return _mix(rewards, _behind(values, last), values.new_zeros(()), gamma, lam, gamma * lam)


def _lambda_ignored(
    rewards: Tensor, values: Tensor, last: float, gamma: float, lam: float
) -> Tensor:
    return lambda_return(rewards, values, last, gamma, 1.0)


LAMBDA_RETURN = Exercise(
    id="mdp.lambda.1",
    title="The λ-return",
    chapter=2,
    difficulty=3,
    minutes=25,
    goal=(
        "The λ-return at every step of one episode: a mix of the critic's word on the next state "
        "and the λ-return from there; `last_value` stands behind the last step."
    ),
    outputs=(Output("returns", "(T,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=lambda_return,
    mutants=(
        Mutant(
            "advantage",
            _advantage,
            "this is GAE, the λ-return minus the value of the state itself; here the target is "
            "asked for, with nothing taken off",
        ),
        Mutant(
            "a cut-off is an end",
            _cut_is_end,
            "`last_value` has no effect: an episode that was cut off goes on being worth "
            "something, so bootstrap behind the last step",
        ),
        Mutant(
            "own value",
            _own_value,
            "the value of the state that was left stands where that of the state that was reached "
            "belongs: V(s[t+1]) is values[t+1], and `last_value` behind the last step",
        ),
        Mutant(
            "lambda exchanged",
            _exchanged,
            "λ and 1 - λ are exchanged: λ = 1 is the return that was earned, λ = 0 believes the "
            "critic after one step",
        ),
        Mutant(
            "no discount on the trace",
            _no_gamma_in_trace,
            "the return from the next step is not discounted: gamma multiplies both the critic's "
            "word and the return behind it",
        ),
        Mutant(
            "critic in full",
            _critic_in_full,
            "the critic's value enters in full and the return comes on top: the weights 1 - λ and "
            "λ must add to 1",
        ),
        Mutant(
            "begun at zero",
            _begun_at_zero,
            "the recursion begins with 0 behind the last step, so only the share 1 - λ of "
            "`last_value` enters: begin with `last_value` itself",
        ),
        Mutant(
            "lambda ignored",
            _lambda_ignored,
            "`lam` has no effect: this is the discounted return, the case λ = 1",
        ),
    ),
    not_tested="batches, and several episodes in one row.",
)
