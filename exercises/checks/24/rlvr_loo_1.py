"""rlvr.loo.1: the others as a baseline."""

import math

from rlvr_groups import case, cases

from bookkit.exercises.exercise import Case, Check, Output, edit, edits


def oracle(rewards: list[float], group_size: int) -> list[float]:
    """For each reward, go and look at the others."""
    result = []
    for i, reward in enumerate(rewards):
        start = group_size * (i // group_size)
        others = [rewards[j] for j in range(start, start + group_size) if j != i]
        result.append(reward - math.fsum(others) / len(others))
    return result


def edges() -> tuple[Case, ...]:
    """The hand example, pairs, equal rewards."""

    return (
        case("one right of four", [1.0, 0.0, 0.0, 0.0], 4),
        case("a pair", [1.0, 0.0], 2),
        case("two pairs", [1.0, 0.0, 0.0, 3.0], 2),
        case("equal", [2.0, 2.0, 2.0], 3),
        case("two groups of three", [1.0, 2.0, 4.0, 0.0, 0.0, 8.0], 3),
        case("negative", [-1.0, -2.0, -4.0], 3),
    )


CHECK = Check(
    id="rlvr.loo.1",
    outputs=(Output("advantages", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "own reward counted",
            "(grouped.sum(1, keepdim=True) - grouped) / (group_size - 1)",
            "grouped.mean(1, keepdim=True)",
            "the baseline is the mean of the whole group: leave the row's own reward out "
            "of it, or the baseline depends on the action it judges",
        ),
        edit(
            "sum of the others",
            " / (group_size - 1)",
            "",
            "the sum of the others is subtracted: divide it by their number",
        ),
        edit(
            "divided by n",
            "(group_size - 1)",
            "group_size",
            "the sum of the others is divided by n; there are n - 1 of them",
        ),
        edit(
            "sum of all over n - 1",
            "(grouped.sum(1, keepdim=True) - grouped)",
            "grouped.sum(1, keepdim=True)",
            "the sum of all is divided by n - 1: subtract the row's own reward from it first",
        ),
        edit(
            "the whole batch",
            "    grouped = ",
            "    group_size = rewards.numel()\n    grouped = ",
            "the others are those of the whole batch: only rewards of the same prompt compare",
        ),
        edits(
            "interleaved groups",
            ("rewards.view(-1, group_size)", "rewards.view(group_size, -1).T"),
            ("(grouped - others).flatten()", "(grouped - others).T.flatten()"),
            message="groups are taken every so many rows: completions of one prompt stand next to "
            "each other, so `view(-1, group_size)`",
        ),
        edit(
            "baseline alone",
            "(grouped - others)",
            "others",
            "this is the baseline: the advantage is the reward minus it",
        ),
        edit(
            "scaled",
            "(grouped - others)",
            "((grouped - others) / (grouped.std(1, keepdim=True) + 1e-4))",
            "the result is divided by the group's spread: RLOO leaves the scale alone",
        ),
        edit(
            "opposite sign",
            "grouped - others)",
            "others - grouped)",
            "the sign is opposite: what is better than the others has a positive advantage",
        ),
    ),
    not_tested="groups of one, for which there are no others.",
    wide=("rewards",),
)
