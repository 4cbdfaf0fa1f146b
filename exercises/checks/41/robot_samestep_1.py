"""robot.samestep.1: the value behind a row where environments reset within the step."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


def oracle(
    values: list[list[float]],
    last: list[float],
    final_values: list[list[float]],
    terminated: list[list[bool]],
    truncated: list[list[bool]],
) -> list[list[float]]:
    """Row by row."""
    result = []
    for t in range(len(values)):
        row = []
        for n in range(len(last)):
            if terminated[t][n]:
                row.append(0.0)
            elif truncated[t][n]:
                row.append(final_values[t][n])
            elif t + 1 < len(values):
                row.append(values[t + 1][n])
            else:
                row.append(last[n])
        result.append(row)
    return result


def cases(draw: Draw) -> Case:
    """A rollout with ends of both kinds; where no episode ended anything may stand."""
    steps, envs = draw.dimension(2), draw.dimension()
    terminated, truncated = (~draw.holed_mask(steps, envs) for _ in range(2))
    needed = truncated | draw.holed_mask(steps, envs)
    inputs = {
        "values": draw.normal(steps, envs),
        "last": draw.normal(envs),
        "final_values": torch.where(needed, draw.normal(steps, envs), math.nan),
        "terminated": terminated,
        "truncated": truncated,
    }
    return Case(f"{steps} × {envs}", inputs)


def edges() -> tuple[Case, ...]:
    """No end, each end alone, both flags at once, an end in the last row, two environments."""

    def case(
        name: str,
        values: list[list[float]],
        last: list[float],
        final: list[list[float]],
        terminated: list[list[int]],
        truncated: list[list[int]],
    ) -> Case:
        def number(x: list) -> Tensor:
            return torch.tensor(x, dtype=torch.float64)

        inputs = {
            "values": number(values),
            "last": number(last),
            "final_values": number(final),
            "terminated": torch.tensor(terminated).bool(),
            "truncated": torch.tensor(truncated).bool(),
        }
        return Case(name, inputs)

    no, nan = [[0], [0], [0]], math.nan
    three = [[1.0], [2.0], [4.0]]
    return (
        case("no end", three, [8.0], [[nan]] * 3, no, no),
        case("cut off", three, [8.0], [[nan], [16.0], [nan]], no, [[0], [1], [0]]),
        case("died", three, [8.0], [[nan], [16.0], [nan]], [[0], [1], [0]], no),
        case(
            "both at once", three, [8.0], [[nan], [16.0], [nan]], [[0], [1], [0]], [[0], [1], [0]]
        ),
        case("cut off in the last row", three, [8.0], [[nan], [nan], [16.0]], no, [[0], [0], [1]]),
        case(
            "numbers where nothing ended",
            three,
            [8.0],
            [[32.0], [16.0], [64.0]],
            no,
            [[0], [1], [0]],
        ),
        case("nan at a death", three, [8.0], [[nan], [nan], [nan]], [[0], [1], [0]], no),
        case(
            "two environments",
            [[1.0, 3.0], [2.0, 5.0]],
            [8.0, 9.0],
            [[16.0, nan], [nan, 32.0]],
            [[0, 0], [0, 0]],
            [[1, 0], [0, 1]],
        ),
    )


CHECK = Check(
    id="robot.samestep.1",
    outputs=(Output("next_values", "(T, N)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "value of the next episode",
            ", cut",
            ", following",
            "at a truncation you read the next row, which belongs to another episode "
            "already: take the value of the final observation",
        ),
        edit(
            "a truncation taken for a death",
            "final_values, following",
            "0.0, following",
            "a truncation is treated as a death: the clock ran out, the world did not end",
        ),
        edit(
            "a death with a future",
            "0.0",
            "final_values",
            "a termination gets the value of its last observation: behind it there is nothing",
        ),
        edit(
            "flag not read",
            ", cut",
            ", torch.where(final_values.isnan(), following, final_values)",
            "the final value is taken wherever it is a number: only `truncated` says that "
            "an episode was cut off, and what stands in other rows means nothing",
        ),
        edit(
            "truncation wins over death",
            "0.0",
            "torch.where(truncated, final_values, torch.where(terminated, 0.0, "
            "torch.cat([values[1:], last[None]])))",
            "where both flags are set the truncation wins: a dead arm stays dead, "
            "whatever the clock says",
        ),
        edit(
            "value of the state acted in",
            "final_values, following",
            "values, following",
            "at a truncation you take the value of the state acted in: that is the "
            "makeshift for simulators that lose the final observation, and here you have "
            "it",
        ),
        edit(
            "one row off",
            ", following",
            ", values",
            "this is the value of the row itself: what lies behind it is the value of the next row",
        ),
        edit(
            "nothing behind the last row",
            "last[None]",
            "torch.zeros_like(last)[None]",
            "the last row gets 0: the rollout stops there, the episode does not; take `last`",
        ),
    ),
    not_tested="the trace, which must stop at both kinds of end.",
    wide=(
        "values",
        "last",
        "final_values",
    ),
)
