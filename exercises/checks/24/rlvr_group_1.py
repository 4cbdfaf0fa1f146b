"""rlvr.group.1: advantages within groups."""

import math

from rlvr_groups import case, cases

from bookkit.exercises.exercise import Case, Check, Output, edit, edits

EPS = 1e-4


def oracle(rewards: list[float], group_size: int) -> list[float]:
    """Group by group, written out."""
    result: list[float] = []
    for start in range(0, len(rewards), group_size):
        group = rewards[start : start + group_size]
        if max(group) == min(group):
            result += [0.0] * group_size
            continue
        mean = math.fsum(group) / group_size
        spread = math.sqrt(math.fsum((r - mean) ** 2 for r in group) / (group_size - 1))
        result += [(r - mean) / (spread + EPS) for r in group]
    return result


def edges() -> tuple[Case, ...]:
    """The hand example, silent groups, groups of one, rounding."""

    return (
        case("one right of four", [1.0, 0.0, 0.0, 0.0], 4),
        case("two groups", [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0], 4),
        case("an easy and a hard question", [1.0, 1.0, 0.0, 1.0, 0.0, 0.0], 3),
        case("all right", [1.0, 1.0, 1.0, 1.0], 4),
        case("all wrong, and a group with a signal", [0.0, 0.0, 0.0, 1.0], 2),
        case("equal rewards that do not add up exactly", [1000.1] * 7, 7),
        case("groups of one", [1.0, 0.0, 5.0], 1),
        case("one right of seventeen", [1.0] + [0.0] * 16, 17),
        case("one right of 122", [0.0] * 121 + [1.0], 122),
        case("graded", [0.25, 0.5, 1.0, 0.0], 4),
        case("a small spread", [0.001, 0.002, 0.003], 3),
        case("a smaller one", [0.0001, 0.0002, 0.0004], 3),
    )


CHECK = Check(
    id="rlvr.group.1",
    outputs=(Output("advantages", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "the whole batch",
            "    grouped = ",
            "    group_size = rewards.numel()\n    grouped = ",
            "mean and standard deviation are those of the whole batch: then every answer "
            "to an easy question looks good. Each group is compared with itself",
        ),
        edits(
            "interleaved groups",
            ("rewards.view(-1, group_size)", "rewards.view(group_size, -1).T"),
            ("0.0, scaled).flatten()", "0.0, scaled).T.flatten()"),
            message="groups are taken every so many rows: completions of one prompt stand next to "
            "each other, so `view(-1, group_size)`",
        ),
        edit(
            "population standard deviation",
            "std(1, keepdim=True)",
            "std(1, keepdim=True, correction=0)",
            "the standard deviation divides by n; here, as in `torch.std`, it divides by n - 1",
        ),
        edit(
            "spread of the batch",
            "grouped.std(1, keepdim=True)",
            "rewards.std()",
            "the mean is the group's, the standard deviation is that of the whole batch",
        ),
        edit(
            "variance",
            "std(1, keepdim=True)",
            "var(1, keepdim=True)",
            "it divides by the variance; the standard deviation is its square root",
        ),
        edit(
            "only centred",
            " / (spread + 1e-4)",
            "",
            "the rewards are centred and not scaled: that is Dr. GRPO's rule, not this one",
        ),
        edit(
            "not centred",
            "(grouped - grouped.mean(1, keepdim=True))",
            "grouped",
            "the mean of the group is not subtracted: then no right answer is ever better "
            "than its group",
        ),
        edit(
            "another epsilon",
            "1e-4",
            "1e-8",
            "the number added to the standard deviation is not 1e-4; with small spreads it shows",
        ),
        edit(
            "no guard for equal rewards",
            "torch.where(equal, 0.0, scaled)",
            "scaled",
            "equal rewards do not give exactly 0: rounding leaves a difference from the "
            "mean, and dividing by a tiny spread blows it up. Ask whether they are equal",
        ),
        edits(
            "no epsilon",
            (" + 1e-4", ""),
            ("torch.where(equal, 0.0, scaled)", "torch.where(equal.all(), torch.nan, scaled)"),
            message="equal rewards give 0/0 = nan: a group without a difference has advantage 0",
        ),
        edit(
            "nan for one",
            "torch.zeros_like(rewards)",
            "torch.full_like(rewards, torch.nan)",
            "a group of one has no standard deviation, and yours is nan there: it has "
            "nothing to be compared with, so 0",
        ),
        edit(
            "raw for one",
            "torch.zeros_like(rewards)",
            "rewards.clone()",
            "a group of one keeps its raw reward: with nothing to compare it with it is 0",
        ),
    ),
    not_tested="rewards that are missing (a verifier that failed), and groups of unequal size.",
    wide=("rewards",),
)
