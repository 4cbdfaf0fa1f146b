"""rlvr.fill.1: fill a batch with groups that teach something."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Rounds = list[list[list[float]]]
Filled = tuple[list[tuple[int, int]], int]


def fill_batch(rounds: Rounds, wanted: int) -> Filled:
    """Round by round, until enough groups have a signal."""
    return _fill(rounds, wanted)


def _fill(
    rounds: Rounds,
    wanted: int,
    *,
    right_stays: bool = False,
    wrong_stays: bool = False,
    surplus: bool = False,
    all_rounds: bool = False,
    one_round: bool = False,
    in_groups: bool = False,
    surplus_free: bool = False,
    everything: bool = False,
) -> Filled:
    kept: list[tuple[int, int]] = []
    discarded = 0
    for r, groups in enumerate(rounds):
        if (len(kept) >= wanted and not all_rounds) or (one_round and r > 0):
            break
        for g, rewards in enumerate(groups):
            signal = max(rewards) != min(rewards)
            signal |= right_stays and min(rewards) > 0
            signal |= wrong_stays and max(rewards) <= 0
            if signal and (len(kept) < wanted or surplus):
                kept.append((r, g))
            elif not (signal and surplus_free):
                discarded += 1 if in_groups else len(rewards)
            if everything and signal:
                discarded += len(rewards)
    return kept, discarded


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


def _right_kept(rounds: Rounds, wanted: int) -> Filled:
    return _fill(rounds, wanted, right_stays=True)


def _wrong_kept(rounds: Rounds, wanted: int) -> Filled:
    return _fill(rounds, wanted, wrong_stays=True)


def _surplus_kept(rounds: Rounds, wanted: int) -> Filled:
    return _fill(rounds, wanted, surplus=True)


def _all_rounds(rounds: Rounds, wanted: int) -> Filled:
    return _fill(rounds, wanted, all_rounds=True)


def _one_round(rounds: Rounds, wanted: int) -> Filled:
    return _fill(rounds, wanted, one_round=True)


def _groups_counted(rounds: Rounds, wanted: int) -> Filled:
    return _fill(rounds, wanted, in_groups=True)


def _surplus_free(rounds: Rounds, wanted: int) -> Filled:
    return _fill(rounds, wanted, surplus_free=True)


def _any_right(rounds: Rounds, wanted: int) -> Filled:
    """Keeps a group if its mean lies strictly between 0 and 1."""
    changed = [
        [[0.0, 1.0, *g[2:]] if 0 < sum(g) / len(g) < 1 else g for g in groups] for groups in rounds
    ]
    return _fill(changed, wanted)


def _everything(rounds: Rounds, wanted: int) -> Filled:
    return _fill(rounds, wanted, everything=True)


FILL = Exercise(
    id="rlvr.fill.1",
    title="A batch of groups that teach",
    chapter=23,
    difficulty=2,
    minutes=20,
    goal=(
        "Go through rounds of groups of rewards until `wanted` groups with unequal rewards are "
        "kept; return them as (round, group), and how many completions were sampled for nothing."
    ),
    outputs=(
        Output("kept", "list of (round, group)", "python"),
        Output("discarded", "int", "python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=fill_batch,
    mutants=(
        Mutant(
            "all right is kept",
            _right_kept,
            "groups in which every answer is right are kept: their advantages are 0 as well",
        ),
        Mutant(
            "all wrong is kept",
            _wrong_kept,
            "groups in which every answer is wrong are kept: their advantages are 0",
        ),
        Mutant(
            "mean between 0 and 1",
            _any_right,
            "a group is kept if its mean lies between 0 and 1: with graded rewards all may have "
            "half marks. Ask whether the rewards differ",
        ),
        Mutant(
            "surplus kept",
            _surplus_kept,
            "more than `wanted` groups are kept: the batch, and with it the step, would change "
            "its size",
        ),
        Mutant(
            "asks for every round",
            _all_rounds,
            "it goes on asking when the batch is full, and pays for it: stop before the next round",
        ),
        Mutant(
            "one round",
            _one_round,
            "only the first round is looked at: ask again until the batch is full",
        ),
        Mutant(
            "groups counted",
            _groups_counted,
            "`discarded` counts groups: the price is paid in completions",
        ),
        Mutant(
            "surplus for free",
            _surplus_free,
            "groups with a signal that no longer fit are not counted as discarded: they were "
            "sampled all the same",
        ),
        Mutant(
            "everything counted",
            _everything,
            "kept completions are counted as discarded: only those that are not learned from",
        ),
    ),
    not_tested="rewards that are missing, and how many prompts a round should ask for.",
)
