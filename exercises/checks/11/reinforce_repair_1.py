"""reinforce.repair.1: a widely copied sketch, made right.

The learner's function takes a policy, a sampler and a reward function. The check builds all three
from plain tensors, so that the oracle can follow every step with lists of numbers: the policy is
a table of logits that reads the whole history, the sampler follows a script and refuses anything
but the logits that the policy returned last, the reward may hold a term in the log-probabilities
(as a KL penalty does) and one in the length that it reads off the mask.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from reinforce_faults import FAULTS
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output

VOCABULARY = 4


Policy = Callable[[Tensor], Tensor]


Sampler = Callable[[Tensor], Tensor]


def table_policy(theta: Tensor) -> Policy:
    """Logits from the last token's row of theta plus half the mean over the history's rows."""

    def policy(ids: Tensor) -> Tensor:
        rows = theta[ids]
        return rows.select(-2, -1) + 0.5 * rows.mean(dim=-2)

    return policy


def scripted_pair(policy: Policy, script: Tensor) -> tuple[Policy, Sampler]:
    """The policy, and a sampler that returns the columns of the script one after the other.

    The sampler raises RuntimeError for anything but the logits that the policy returned last, and
    when the script is at its end.
    """
    columns = iter(script.unbind(dim=1))
    returned: list[Tensor] = []

    def noted(ids: Tensor) -> Tensor:
        returned[:] = [policy(ids)]
        return returned[0]

    def sample(logits: Tensor) -> Tensor:
        if not returned:
            raise RuntimeError("sample was called before policy")
        _refuse_other_logits(logits.detach(), returned[0].detach())
        column = next(columns, None)
        if column is None:
            raise RuntimeError("sample was called more often than max_new_tokens")
        return column.clone()

    return noted, sample


def _refuse_other_logits(given: Tensor, returned: Tensor) -> None:
    if given.shape != returned.shape:
        raise RuntimeError(
            f"sample was given a tensor of shape {tuple(given.shape)}, but the logits that policy "
            f"returned last have shape {tuple(returned.shape)}"
        )
    if not torch.allclose(given.double(), returned.double(), rtol=1e-4, atol=1e-5):
        one, other = (
            [round(value, 2) for value in x.reshape(-1, VOCABULARY)[0].tolist()]
            for x in (given, returned)
        )
        raise RuntimeError(
            "sample was not given the logits that policy returned last: the first row begins with "
            f"{one}, that of policy with {other}"
        )


def call(
    function: Callable[..., Any],
    theta: Tensor,
    script: Tensor,
    pay: Tensor,
    price: float,
    length_pay: float = 0.0,
    bos_id: int = 0,
    eos_id: int = 1,
) -> Any:
    """Build policy, sampler and reward from the case and call the learner's function."""

    def reward_fn(tokens: Tensor, logprobs: Tensor, mask: Tensor) -> Tensor:
        return pay[tokens] - price * logprobs + length_pay * mask.sum(dim=1, keepdim=True)

    policy, sample = scripted_pair(table_policy(theta), script)
    batch_size, max_new_tokens = script.shape
    return function(policy, sample, reward_fn, batch_size, max_new_tokens, bos_id, eos_id)


def _logprobs_of(theta: list[list[float]], bos_id: int, row: list[int]) -> list[float]:
    history, answer = [bos_id], []
    for token in row:
        logits = [
            theta[history[-1]][v] + 0.5 * math.fsum(theta[h][v] for h in history) / len(history)
            for v in range(VOCABULARY)
        ]
        top = max(logits)
        total = top + math.log(math.fsum(math.exp(value - top) for value in logits))
        answer.append(logits[token] - total)
        history.append(token)
    return answer


def oracle(
    theta: list[list[float]],
    frozen_theta: list[list[float]],
    script: list[list[int]],
    pay: list[float],
    price: float,
    length_pay: float,
    bos_id: int,
    eos_id: int,
) -> tuple[list[list[int]], list[list[bool]], float]:
    """One text after the other, one token after the other.

    Rewards are computed from ``frozen_theta``, an equal copy: they are constants of the loss.
    """
    mask, total = [], 0.0
    for row in script:
        length = row.index(eos_id) + 1 if eos_id in row else len(row)
        logprobs = _logprobs_of(theta, bos_id, row)
        frozen = _logprobs_of(frozen_theta, bos_id, row)
        rewards = [pay[row[t]] - price * frozen[t] + length_pay * length for t in range(length)]
        total += math.fsum(math.fsum(rewards[t:]) * logprobs[t] for t in range(length))
        mask.append([t < length for t in range(len(row))])
    return script, mask, -total / len(script)


def _case(
    name: str,
    theta: Tensor,
    script: Tensor,
    pay: Tensor,
    *,
    price: float = 0.0,
    length_pay: float = 0.0,
    bos_id: int = 0,
    eos_id: int = 1,
) -> Case:
    tensors = {"theta": theta, "frozen_theta": theta.clone(), "script": script, "pay": pay}
    numbers = {"price": price, "length_pay": length_pay, "bos_id": bos_id, "eos_id": eos_id}
    return Case(name, {**tensors, **numbers})


def cases(draw: Draw) -> Case:
    """Texts over four tokens; any of them is BOS, any is EOS, and the two may be the same."""
    rows, columns = draw.dimension(), draw.integer(1, 1 + draw.size)
    script = draw.integers(0, VOCABULARY - 1, rows, columns)
    theta = draw.normal(VOCABULARY, VOCABULARY)
    price = draw.choice([0.0, 0.0, 0.5])
    name = f"{rows} × {columns}" + (", the reward holds log-probabilities" if price else "")
    return _case(
        name,
        theta,
        script,
        draw.normal(VOCABULARY),
        price=price,
        length_pay=draw.choice([0.0, 0.25]),
        bos_id=draw.integer(0, VOCABULARY - 1),
        eos_id=draw.integer(0, VOCABULARY - 1),
    )


def edges() -> tuple[Case, ...]:
    """Cases in which one fault at a time shows."""
    theta = torch.tensor(
        [[0.0, 1.0, 2.0, -1.0], [1.0, 0.0, 0.0, 1.0], [0.5, -1.0, 0.0, 1.0], [0.0, 2.0, 1.0, 0.0]],
        dtype=torch.float64,
    )
    pay = torch.tensor([0.0, 1.0, 2.0, -1.0], dtype=torch.float64)

    def case(name: str, script: list[list[int]], **numbers: Any) -> Case:
        return _case(name, theta, torch.tensor(script), pay, **numbers)

    return (
        case("one text of one token", [[2]]),
        case("one text that does not end", [[2, 3, 2]]),
        case("one text that ends early", [[2, 1, 3]]),
        case("two texts of one token", [[2], [3]]),
        case("two texts that do not end", [[2, 3, 2], [3, 3, 2]]),
        case("two texts, one ends early", [[1, 3, 2], [3, 2, 2]]),
        case("every text ends at once", [[1, 2, 3], [1, 3, 2]]),
        case("the reward holds log-probabilities", [[2]], price=0.5),
        case("the reward pays for length", [[2, 1, 3], [3, 2, 2]], length_pay=0.25),
        case("another BOS", [[2, 1]], bos_id=3),
        case("another EOS", [[2, 0, 3], [1, 2, 3]], bos_id=2, eos_id=0),
        case("BOS is EOS as well", [[3, 1, 2, 0]], bos_id=2, eos_id=2),
    )


CHECK = Check(
    id="reinforce.repair.1",
    outputs=(
        Output("tokens", "(B, max_new_tokens)", "int"),
        Output("mask", "(B, max_new_tokens)", "bool"),
        Output("loss", "()"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=FAULTS,
    not_tested="that tokens are drawn at random (they come from a script), speed, and learning.",
    gradient_to=("theta",),
    call=call,
    hidden=("frozen_theta",),
    draws=12,
)
