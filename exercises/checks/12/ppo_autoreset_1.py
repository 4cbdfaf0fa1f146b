"""ppo.autoreset.1: which rows of a vector environment are real, and what is behind each."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit

Table = list[list[float]]


Flags = list[list[bool]]


def oracle(
    values: Table, terminated: Flags, truncated: Flags, done_before: list[bool]
) -> tuple[Table, Flags]:
    """Follow each environment like a referee, one row after the other."""
    steps, environments = len(terminated), len(done_before)
    next_values = [[0.0] * environments for _ in range(steps)]
    valid = [[False] * environments for _ in range(steps)]
    for n in range(environments):
        over = done_before[n]
        for t in range(steps):
            if over:
                over = False  # this row only brings a fresh observation
                continue
            valid[t][n] = True
            if terminated[t][n]:
                over = True
            else:
                next_values[t][n] = values[t + 1][n]
                over = truncated[t][n]
    return next_values, valid


def _legal_ends(draw: Draw, steps: int, environments: int) -> tuple[Tensor, Tensor, Tensor]:
    """Flags that such an environment can return: a dummy row never ends anything."""
    before = draw.integers(0, 3, environments) == 0
    kind = draw.integers(0, 4, steps, environments)
    over = before.clone()
    for t in range(steps):
        kind[t] = torch.where(over, 4, kind[t])
        over = kind[t] <= 1
    return kind == 0, kind == 1, before


def cases(draw: Draw) -> Case:
    """Several environments with ends of both kinds."""
    steps, environments = draw.dimension(2), draw.dimension()
    terminated, truncated, before = _legal_ends(draw, steps, environments)
    inputs = {
        "values": draw.normal(steps + 1, environments),
        "terminated": terminated,
        "truncated": truncated,
        "done_before": before,
    }
    return Case(f"{steps} × {environments}", inputs)


def edges() -> tuple[Case, ...]:
    """Each kind of end in each place, an end before the first row, nan at a terminal state."""

    def case(name: str, values: list[float], ends: str, before: bool = False) -> Case:
        inputs = {
            "values": torch.tensor(values, dtype=torch.float64)[:, None],
            "terminated": torch.tensor([[letter == "t"] for letter in ends]),
            "truncated": torch.tensor([[letter == "c"] for letter in ends]),
            "done_before": torch.tensor([before]),
        }
        return Case(name, inputs)

    two = {
        "values": torch.tensor(
            [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]], dtype=torch.float64
        ),
        "terminated": torch.tensor([[False, False], [True, False], [False, False]]),
        "truncated": torch.tensor([[False, False], [False, False], [False, True]]),
        "done_before": torch.tensor([False, True]),
    }
    return (
        case("one step", [1.0, 3.0], "."),
        case("one dummy step", [1.0, 3.0], ".", before=True),
        case("one step that is cut off", [1.0, 3.0], "c"),
        case("no end", [1.0, 3.0, 5.0, 7.0], "..."),
        case("terminates, is reset, goes on", [1.0, 3.0, 5.0, 7.0], "t.."),
        case("is cut off, is reset, goes on", [1.0, 3.0, 5.0, 7.0], "c.."),
        case("two ends, a reset between", [1.0, 3.0, 5.0, 7.0, 9.0], "c.t."),
        case("ended before the first row", [1.0, 3.0, 5.0, 7.0], "..c", before=True),
        case("nan at the terminal state", [1.0, math.nan, 5.0, 7.0], "t.."),
        Case("two environments", two),
    )


CHECK = Check(
    id="ppo.autoreset.1",
    outputs=(Output("next_values", "(T, N)"), Output("valid", "(T, N)", "bool")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "a truncation is a death",
            "terminated,",
            "done,",
            "a truncated step gets the next value 0: the world would have gone on, so the "
            "value of its last observation counts",
        ),
        edit(
            "ends dropped",
            "next_values, valid",
            "(next_values, ~(terminated | truncated))",
            "`valid` drops the last step of each episode, which is real and holds the "
            "reward that ended it. The dummy is the row after it",
        ),
        edit(
            "everything valid",
            "next_values, valid",
            "(next_values, torch.ones_like(terminated))",
            "`valid` is true everywhere: in the row after an end the action was ignored "
            "and only a reset happened",
        ),
        edit(
            "done_before ignored",
            "done_before[None]",
            "torch.zeros_like(done_before)[None]",
            "`done_before` has no effect: an episode that ended with the last row of the "
            "previous rollout makes the first row of this one a dummy",
        ),
        edit(
            "only terminations reset",
            "| truncated",
            "| terminated",
            "a truncation is followed by a reset as well: a row is a dummy if the row "
            "before it was terminated or truncated",
        ),
        edit(
            "the value after the reset",
            "next_values, valid",
            "(torch.where(truncated, torch.cat([values[2:], values[-1:]]), next_values), valid)",
            "at a truncation the value of the fresh observation after the reset is taken; "
            "the episode's own last observation is `values[t + 1]`",
        ),
        edit(
            "own value",
            "1:",
            ":-1",
            "the value of the observation that was acted on stands where that of the "
            "observation that was reached belongs: row t leads to `values[t + 1]`",
        ),
        edit(
            "the dead are bootstrapped",
            "valid & ~terminated",
            "valid",
            "`terminated` is not used in the next value: behind a terminal state there is nothing",
        ),
        edit(
            "dummies not cleared",
            "valid & ",
            "",
            "dummy rows hold a value; they must be 0, so that nobody can use them by accident",
        ),
        edit(
            "product with the flags",
            "0.0",
            "values[1:] * (valid & ~terminated)",
            "multiplying by the flags leaves nan where the value is nan (0 · nan is nan): "
            "choose with `torch.where`",
        ),
    ),
    not_tested="same-step autoreset, where the last observation arrives in `info`.",
    wide=("values",),
)
