"""zero.batch.1: three numbers, of which two say the third, or contradict each other."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

Given = dict[str, int]


Answer = tuple[int, int, int] | None


NAMES = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


def oracle(given: Given, ranks: int) -> Answer:
    """Try all micro-batches and accumulations that could be meant; keep the one that fits."""
    train, micro, steps = (given.get(name) for name in NAMES)
    if train is None and micro is None:
        return None
    most = max([train or 0, micro or 0, steps or 0]) + 1
    for m in range(1, most) if micro is None else [micro]:
        options = [1]
        if steps is not None:
            options = [steps]
        elif train is not None and micro is not None:
            options = [*range(1, most)]
        for a in options:
            rows = sum(m for _ in range(a) for _ in range(ranks)) if m > 0 and a > 0 else 0
            if rows > 0 and (train is None or rows == train):
                return rows, m, a
    return None


def cases(draw: Draw) -> Case:
    """Two or three of the numbers, most of which fit."""
    ranks = draw.integer(1, 4)
    micro, steps = draw.integer(1, 4), draw.integer(1, 4)
    train = micro * steps * ranks
    if draw.integer(0, 3) == 0:
        train += draw.integer(1, ranks + 1)
    whole = dict(zip(NAMES, (train, micro, steps), strict=True))
    left = draw.choice(
        [NAMES, NAMES[:2], (NAMES[0], NAMES[2]), NAMES[1:], NAMES[:1], NAMES[1:2], NAMES[2:]]
    )
    given = {name: whole[name] for name in left}
    return Case(f"{', '.join(given)} on {ranks} ranks", {"given": given, "ranks": ranks})


def edges() -> tuple[Case, ...]:
    """Each pair, each alone, a contradiction, a remainder, one rank, nothing given."""

    def case(name: str, ranks: int, train: int = 0, micro: int = 0, steps: int = 0) -> Case:
        given = {n: x for n, x in zip(NAMES, (train, micro, steps), strict=True) if x}
        return Case(name, {"given": given, "ranks": ranks})

    return (
        case("nothing given", 2),
        case("accumulation alone", 2, steps=3),
        case("micro-batch alone", 2, micro=3),
        case("batch alone", 2, train=8),
        case("batch alone, a remainder", 3, train=8),
        case("the hand example", 4, train=64, micro=4),
        case("batch and accumulation", 2, train=12, steps=3),
        case("micro-batch and accumulation", 3, micro=2, steps=5),
        case("all three fit", 2, train=12, micro=2, steps=3),
        case("all three, the ranks forgotten", 2, train=6, micro=2, steps=3),
        case("all three, a row too many", 2, train=13, micro=2, steps=3),
        case("micro-batch does not divide", 2, train=10, micro=4),
        case("fewer rows than ranks", 4, train=2),
        case("one rank", 1, train=6, micro=2),
        Case(
            "a batch of 0",
            {"given": {NAMES[0]: 0, NAMES[1]: 2, NAMES[2]: 3}, "ranks": 2},
        ),
        Case("a batch and micro-batches of 0", {"given": {NAMES[0]: 8, NAMES[1]: 0}, "ranks": 2}),
        Case("a batch and an accumulation of 0", {"given": {NAMES[0]: 8, NAMES[2]: 0}, "ranks": 2}),
        Case("micro-batches of 0 alone", {"given": {NAMES[1]: 0}, "ranks": 2}),
        Case("two below 1", {"given": {NAMES[0]: 12, NAMES[1]: -2, NAMES[2]: -3}, "ranks": 2}),
    )


CHECK = Check(
    id="zero.batch.1",
    outputs=(
        Output("sizes", "(batch, micro-batch, accumulation), or None", "python", may_be_none=True),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "ranks forgotten",
            "    train = given",
            "    ranks = 1\n    train = given",
            "the number of ranks is left out: batch = micro-batch × accumulation × ranks",
        ),
        edits(
            "remainder lost",
            ("min(x for x in (train, micro, steps) if x is not None) < 1", "False"),
            (
                "steps = steps or 1\n        micro = train // (steps * ranks)",
                "steps = 1 if steps is None else steps\n"
                "        micro = train // (steps * ranks) if steps else 0",
            ),
            (
                "steps = train // (micro * ranks)",
                "steps = train // (micro * ranks) if micro else 0",
            ),
            ("train != micro * steps * ranks or min(micro, steps) < 1", "False"),
            message="numbers that do not fit are returned: rounding down loses rows, so multiply "
            "out afterwards and return None if the batch does not come back",
        ),
        edit(
            "three trusted",
            "    if min(x",
            "    if None not in (train, micro, steps):\n"
            "        return train, micro, steps\n"
            "    if min(x",
            "when all three are given they are never compared: they can contradict each other",
        ),
        edit(
            "accumulation is enough",
            "        return None\n    if min(x",
            "        if steps is None:\n            return None\n        micro = 1\n    if min(x",
            "the accumulation alone is taken to be enough: without a batch or a "
            "micro-batch nothing says how many rows there are",
        ),
        edit(
            "micro-batch of one",
            "steps = steps or 1\n        micro = train // (steps * ranks)",
            "alone = steps is None\n"
            "        steps = train // ranks if alone else steps\n"
            "        micro = 1 if alone else train // (steps * ranks)",
            "with the batch alone it accumulates rows one by one: DeepSpeed takes an "
            "accumulation of 1 and puts all of a rank's rows into one pass",
        ),
        edit(
            "batch mended",
            "    elif steps is None:\n        steps = train // (micro * ranks)",
            "    elif steps is None:\n"
            "        steps = train // (micro * ranks)\n"
            "    else:\n"
            "        train = micro * steps * ranks",
            "where the three contradict each other the batch is changed to fit: nobody "
            "would learn that the run trains with another batch than was asked for. "
            "Return None",
        ),
        edit(
            "batch of one rank",
            "return train, micro, steps",
            "return train // ranks, micro, steps",
            "the batch that is returned is that of one rank: train_batch_size counts the "
            "rows of all ranks",
        ),
        edits(
            "zero is missing",
            ('given.get("train_batch_size")', 'given.get("train_batch_size") or None'),
            (
                'given.get("train_micro_batch_size_per_gpu")',
                'given.get("train_micro_batch_size_per_gpu") or None',
            ),
            (
                'given.get("gradient_accumulation_steps")',
                'given.get("gradient_accumulation_steps") or None',
            ),
            message="a number of 0 is filled in as if it were missing (`or`, `if not micro`): it "
            "was given, and is below 1. Ask whether it `is None`",
        ),
        edits(
            "only the batch is tested",
            ("min(x for x in (train, micro, steps) if x is not None) < 1", "False"),
            (
                "steps = steps or 1\n        micro = train // (steps * ranks)",
                "steps = 1 if steps is None else steps\n"
                "        micro = train // (steps * ranks) if steps else 0",
            ),
            (
                "steps = train // (micro * ranks)",
                "steps = train // (micro * ranks) if micro else 0",
            ),
            ("min(micro, steps) < 1", "train < 1"),
            message="micro-batch and accumulation are never tested: two numbers below 0 multiply "
            "to a batch above it. Each of the three must be at least 1",
        ),
    ),
    not_tested="tensor or pipeline parallelism, under which several ranks share their rows.",
)
