"""zero.batch.1: three numbers, of which two say the third, or contradict each other."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Given = dict[str, int]
Answer = tuple[int, int, int] | None
NAMES = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


def batch_sizes(given: Given, ranks: int) -> Answer:
    """Fill in what is missing, then see whether the product holds."""
    return _fill(given, ranks)


def _fill(
    given: Given,
    ranks: int,
    *,
    world: bool = True,
    test: bool = True,
    trusts: bool = False,
    alone: bool = False,
    split: str = "accumulation is 1",
    zero: bool = True,
    signs: bool = True,
) -> Answer:
    train, micro, steps = (given.get(name) if zero else given.get(name) or None for name in NAMES)
    size = ranks if world else 1
    if train is None and micro is None:
        if not alone or steps is None:
            return None
        micro = 1
    if train is None and micro is not None:
        steps = 1 if steps is None else steps
        train = micro * steps * size
    assert train is not None
    if micro is None and steps is None:
        if split == "micro is 1":
            micro, steps = 1, train // size
        else:
            steps, micro = 1, train // size
    elif steps is None and micro is not None:
        steps = train // (micro * size) if micro else 0
    elif micro is None and steps is not None:
        micro = train // (steps * size) if steps else 0
    assert micro is not None and steps is not None
    if trusts and len(given) == 3:
        return train, micro, steps
    tested = (train, micro, steps) if signs else (train,)
    if test and (train != micro * steps * size or min(tested) < 1):
        return None
    return train, micro, steps


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


def _ranks_forgotten(given: Given, ranks: int) -> Answer:
    return _fill(given, ranks, world=False)


def _remainder_lost(given: Given, ranks: int) -> Answer:
    return _fill(given, ranks, test=False)


def _three_trusted(given: Given, ranks: int) -> Answer:
    return _fill(given, ranks, trusts=True)


def _accumulation_enough(given: Given, ranks: int) -> Answer:
    return _fill(given, ranks, alone=True)


def _micro_of_one(given: Given, ranks: int) -> Answer:
    return _fill(given, ranks, split="micro is 1")


def _zero_missing(given: Given, ranks: int) -> Answer:
    return _fill(given, ranks, zero=False)


def _signs_untested(given: Given, ranks: int) -> Answer:
    return _fill(given, ranks, signs=False)


def _batch_mended(given: Given, ranks: int) -> Answer:
    train, micro, steps = (given.get(name) for name in NAMES)
    if train and micro and steps and train != micro * steps * ranks:
        return micro * steps * ranks, micro, steps
    return _fill(given, ranks)


def _per_rank(given: Given, ranks: int) -> Answer:
    found = _fill(given, ranks)
    return found and (found[0] // ranks, found[1], found[2])


BATCH = Exercise(
    id="zero.batch.1",
    title="A batch that DeepSpeed accepts",
    chapter=34,
    difficulty=2,
    minutes=15,
    goal=(
        "From the batch sizes that a configuration gives, the three numbers (train_batch_size, "
        "train_micro_batch_size_per_gpu, gradient_accumulation_steps) as DeepSpeed completes them; "
        "None where it refuses."
    ),
    outputs=(
        Output("sizes", "(batch, micro-batch, accumulation), or None", "python", may_be_none=True),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=batch_sizes,
    mutants=(
        Mutant(
            "ranks forgotten",
            _ranks_forgotten,
            "the number of ranks is left out: batch = micro-batch × accumulation × ranks",
        ),
        Mutant(
            "remainder lost",
            _remainder_lost,
            "numbers that do not fit are returned: rounding down loses rows, so multiply out "
            "afterwards and return None if the batch does not come back",
        ),
        Mutant(
            "three trusted",
            _three_trusted,
            "when all three are given they are never compared: they can contradict each other",
        ),
        Mutant(
            "accumulation is enough",
            _accumulation_enough,
            "the accumulation alone is taken to be enough: without a batch or a micro-batch "
            "nothing says how many rows there are",
        ),
        Mutant(
            "micro-batch of one",
            _micro_of_one,
            "with the batch alone it accumulates rows one by one: DeepSpeed takes an accumulation "
            "of 1 and puts all of a rank's rows into one pass",
        ),
        Mutant(
            "batch mended",
            _batch_mended,
            "where the three contradict each other the batch is changed to fit: nobody would learn "
            "that the run trains with another batch than was asked for. Return None",
        ),
        Mutant(
            "batch of one rank",
            _per_rank,
            "the batch that is returned is that of one rank: train_batch_size counts the rows of "
            "all ranks",
        ),
        Mutant(
            "zero is missing",
            _zero_missing,
            "a number of 0 is filled in as if it were missing (`or`, `if not micro`): it was "
            "given, and is below 1. Ask whether it `is None`",
        ),
        Mutant(
            "only the batch is tested",
            _signs_untested,
            "micro-batch and accumulation are never tested: two numbers below 0 multiply to a "
            "batch above it. Each of the three must be at least 1",
        ),
    ),
    not_tested="tensor or pipeline parallelism, under which several ranks share their rows.",
)
