"""rlvr.fill.1: fill a batch with groups that teach something."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

Rounds = list[list[list[float]]]


Filled = tuple[list[tuple[int, int]], int]


def oracle(rounds: Rounds, wanted: int) -> Filled:
    """All groups with a signal in order, cut at `wanted`; then count what was asked for."""
    good = [
        (r, g)
        for r, groups in enumerate(rounds)
        for g, rewards in enumerate(groups)
        if any(x != rewards[0] for x in rewards)
    ]
    kept = good[:wanted]
    last = kept[-1][0] if len(kept) == wanted else len(rounds) - 1
    sampled = sum(len(rewards) for groups in rounds[: last + 1] for rewards in groups)
    return kept, sampled - sum(len(rounds[r][g]) for r, g in kept)


def cases(draw: Draw) -> Case:
    """Rounds of groups of three, most of them silent."""
    material = [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.0, 0.5, 1.0]]
    rounds = [
        [list(draw.choice(material)) for _ in range(draw.integer(1, 3))]
        for _ in range(draw.dimension())
    ]
    return Case(f"{len(rounds)} rounds", {"rounds": rounds, "wanted": draw.integer(1, 3)})


def edges() -> tuple[Case, ...]:
    """All right, all wrong, graded, a surplus, too few, exactly enough."""
    signal, wrong, right, half = [1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [0.5, 0.5]

    def case(name: str, rounds: Rounds, wanted: int) -> Case:
        copied = [[list(rewards) for rewards in groups] for groups in rounds]
        return Case(name, {"rounds": copied, "wanted": wanted})

    return (
        case("one group with a signal", [[signal]], 1),
        case("all wrong, then a signal", [[wrong], [signal]], 1),
        case("all right, then a signal", [[right], [signal]], 1),
        case("half marks for all", [[half, signal]], 1),
        case("a surplus", [[signal, signal, signal]], 2),
        case("a round too many on offer", [[signal], [wrong, signal]], 1),
        case("two rounds needed", [[signal, wrong], [right, signal]], 2),
        case("never full", [[wrong], [signal], [right]], 2),
        case("groups of three", [[[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]], 1),
        case("graded rewards", [[[0.25, 0.5], [0.5, 0.5]]], 1),
        case("nothing but silence", [[wrong, right]], 1),
    )


CHECK = Check(
    id="rlvr.fill.1",
    outputs=(
        Output("kept", "list of (round, group)", "python"),
        Output("discarded", "int", "python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "all right is kept",
            "if max(rewards) != min(rewards) and",
            "signal = min(rewards) > 0 or max(rewards) != min(rewards)\n            if signal and",
            "groups in which every answer is right are kept: their advantages are 0 as well",
        ),
        edit(
            "all wrong is kept",
            "if max(rewards) != min(rewards) and",
            "signal = max(rewards) <= 0 or max(rewards) != min(rewards)\n            if signal and",
            "groups in which every answer is wrong are kept: their advantages are 0",
        ),
        edit(
            "mean between 0 and 1",
            "if max(rewards) != min(rewards) and",
            "signal = max(rewards) != min(rewards) or 0 < sum(rewards) / len(rewards) < "
            "1\n"
            "            if signal and",
            "a group is kept if its mean lies between 0 and 1: with graded rewards all "
            "may have half marks. Ask whether the rewards differ",
        ),
        edits(
            "surplus kept",
            (" and len(kept) < wanted", ""),
            ("len(kept) == wanted", "len(kept) >= wanted"),
            message="more than `wanted` groups are kept: the batch, and with it the step, would "
            "change its size",
        ),
        edit(
            "asks for every round",
            "len(kept) == wanted",
            "False",
            "it goes on asking when the batch is full, and pays for it: stop before the next round",
        ),
        edit(
            "one round",
            "len(kept) == wanted",
            "len(kept) == wanted or r > 0",
            "only the first round is looked at: ask again until the batch is full",
        ),
        edit(
            "groups counted",
            "+= len(rewards)",
            "+= 1",
            "`discarded` counts groups: the price is paid in completions",
        ),
        edit(
            "surplus for free",
            "else:",
            "elif max(rewards) == min(rewards):",
            "groups with a signal that no longer fit are not counted as discarded: they "
            "were sampled all the same",
        ),
        edit(
            "everything counted",
            "kept.append((r, g))\n            else:\n                discarded += len(rewards)",
            "kept.append((r, g))\n"
            "                discarded += len(rewards)\n"
            "            else:\n"
            "                discarded += len(rewards) * (1 + (max(rewards) != "
            "min(rewards)))",
            "kept completions are counted as discarded: only those that are not learned from",
        ),
    ),
    not_tested="rewards that are missing, and how many prompts a round should ask for.",
)
