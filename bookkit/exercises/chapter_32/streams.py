"""ddp.streams.1: the same data for the run, other noise for every completion."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Pair = tuple[list[int], list[int]]


def rank_rows(
    order: list[int], batch: int, group_size: int, step: int, rank: int, ranks: int
) -> Pair:
    """A block of the global batch; a completion is known by its place in the whole run."""
    return _rows(order, batch, group_size, step, _block(batch, rank, ranks))


def _block(batch: int, rank: int, ranks: int) -> list[int]:
    share, extra = divmod(batch, ranks)
    start = rank * share + min(rank, extra)
    return list(range(start, start + share + (rank < extra)))


def _rows(order: list[int], batch: int, group_size: int, step: int, positions: list[int]) -> Pair:
    rows = [step * batch + p for p in positions]
    items = [order[row] for row in rows for _ in range(group_size)]
    return items, [row * group_size + g for row in rows for g in range(group_size)]


def oracle(order: list[int], batch: int, group_size: int, step: int, rank: int, ranks: int) -> Pair:
    """Write down every completion of the run in order, then deal out this step's prompts."""
    run = [(item, g) for item in order for g in range(group_size)]
    sizes = [0] * ranks
    for position in range(batch):
        sizes[position % ranks] += 1
    first = step * batch + sum(sizes[:rank])
    places = range(first * group_size, (first + sizes[rank]) * group_size)
    return [run[place][0] for place in places], list(places)


def cases(draw: Draw) -> Case:
    """One rank of one to four; batches that the ranks may not divide."""
    ranks = draw.integer(1, 4)
    batch = ranks + draw.integer(0, draw.size)
    steps = draw.integer(1, 3)
    order = [int(x) for x in draw.integers(0, 99, batch * steps)]
    inputs = {
        "order": order, "batch": batch, "group_size": draw.integer(1, 3),
        "step": draw.integer(0, steps - 1), "rank": draw.integer(0, ranks - 1), "ranks": ranks,
    }  # fmt: skip
    return Case(f"batch {batch} on {ranks} ranks", inputs)


def edges() -> tuple[Case, ...]:
    """One rank, the first and the last of several, a later step, prompts left over."""
    order = [7, 3, 9, 1, 8, 2, 6, 4, 5, 0, 12, 11, 15, 10, 14, 13]

    def case(name: str, batch: int, group_size: int, step: int, rank: int, ranks: int) -> Case:
        inputs = {
            "order": order, "batch": batch, "group_size": group_size, "step": step,
            "rank": rank, "ranks": ranks,
        }  # fmt: skip
        return Case(name, inputs)

    return (
        case("one rank", 3, 2, 0, 0, 1),
        case("one completion each", 4, 1, 0, 1, 2),
        case("the hand example, rank 0", 4, 2, 1, 0, 2),
        case("the hand example, rank 1", 4, 2, 1, 1, 2),
        case("a prompt left over, rank 0", 5, 2, 1, 0, 2),
        case("a prompt left over, last rank", 5, 2, 1, 1, 2),
        case("two left over among three", 5, 1, 2, 1, 3),
        case("a later step", 4, 3, 3, 2, 4),
    )


def _everything(
    order: list[int], batch: int, group_size: int, step: int, rank: int, ranks: int
) -> Pair:
    return _rows(order, batch, group_size, step, list(range(batch)))


def _one_noise(
    order: list[int], batch: int, group_size: int, step: int, rank: int, ranks: int
) -> Pair:
    items, _ = rank_rows(order, batch, group_size, step, rank, ranks)
    return items, [step * batch * group_size + i for i in range(len(items))]


def _plus_rank(
    order: list[int], batch: int, group_size: int, step: int, rank: int, ranks: int
) -> Pair:
    items, places = _one_noise(order, batch, group_size, step, rank, ranks)
    return items, [place + rank for place in places]


def _one_a_prompt(
    order: list[int], batch: int, group_size: int, step: int, rank: int, ranks: int
) -> Pair:
    items, places = rank_rows(order, batch, group_size, step, rank, ranks)
    return items, [place // group_size for place in places]


def _step_forgotten(
    order: list[int], batch: int, group_size: int, step: int, rank: int, ranks: int
) -> Pair:
    items, _ = rank_rows(order, batch, group_size, step, rank, ranks)
    return items, rank_rows(order, batch, group_size, 0, rank, ranks)[1]


def _rest_lost(
    order: list[int], batch: int, group_size: int, step: int, rank: int, ranks: int
) -> Pair:
    share = batch // ranks
    positions = list(range(rank * share, (rank + 1) * share))
    return _rows(order, batch, group_size, step, positions)


def _rest_last(
    order: list[int], batch: int, group_size: int, step: int, rank: int, ranks: int
) -> Pair:
    share = batch // ranks
    end = batch if rank == ranks - 1 else (rank + 1) * share
    return _rows(order, batch, group_size, step, list(range(rank * share, end)))


def _dealt(order: list[int], batch: int, group_size: int, step: int, rank: int, ranks: int) -> Pair:
    return _rows(order, batch, group_size, step, list(range(rank, batch, ranks)))


def _own_order(
    order: list[int], batch: int, group_size: int, step: int, rank: int, ranks: int
) -> Pair:
    turned = order[rank:] + order[:rank]
    return rank_rows(turned, batch, group_size, step, rank, ranks)


def _steps_overlap(
    order: list[int], batch: int, group_size: int, step: int, rank: int, ranks: int
) -> Pair:
    share = len(_block(batch, rank, ranks))
    positions = [p + step * (share - batch) for p in _block(batch, rank, ranks)]
    return _rows(order, batch, group_size, step, positions)


STREAMS = Exercise(
    id="ddp.streams.1",
    title="Same data, other noise",
    chapter=32,
    difficulty=3,
    minutes=20,
    goal=(
        "The items that a rank answers at a step, one for each completion, and the place of each "
        "completion in the whole run, which its seed is made from: the same on any number of ranks."
    ),
    outputs=(
        Output("items", "a list, one for each completion", "python"),
        Output("places", "a list, one for each completion", "python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=rank_rows,
    mutants=(
        Mutant(
            "every rank answers everything",
            _everything,
            "each rank takes the whole batch: the ranks do the same work, and the gradient is "
            "that of one of them",
        ),
        Mutant(
            "places counted by each rank for itself",
            _one_noise,
            "places are counted from the step's first completion on every rank: all ranks would "
            "draw with the same noise",
        ),
        Mutant(
            "rank added",
            _plus_rank,
            "the rank is added to a place that each rank counts for itself: completion 1 of rank "
            "0 and completion 0 of rank 1 share their noise. Count over all ranks",
        ),
        Mutant(
            "one place a prompt",
            _one_a_prompt,
            "all completions of a prompt have one place: they would be identical, and the group "
            "would teach nothing",
        ),
        Mutant(
            "step forgotten",
            _step_forgotten,
            "places begin anew at each step: the same noise would come back every time",
        ),
        Mutant(
            "rest lost",
            _rest_lost,
            "prompts that are left over when the ranks do not divide the batch go to nobody; the "
            "first ranks take one more each",
        ),
        Mutant(
            "rest to the last rank",
            _rest_last,
            "the last rank takes all that is left over, and the others wait for it; the first "
            "ranks take one more each",
        ),
        Mutant(
            "dealt one by one",
            _dealt,
            "prompts are dealt one by one (rank, rank + P, ...); here a rank takes a block",
        ),
        Mutant(
            "own order",
            _own_order,
            "the order of the items depends on the rank: then some are answered twice and others "
            "never. The data's order is the same everywhere",
        ),
        Mutant(
            "steps overlap",
            _steps_overlap,
            "a step moves on by the rank's share instead of by the whole batch: items of one step "
            "come again in the next, on another rank",
        ),
    ),
    not_tested="the hash that makes a seed from a place; `seed + place` would make neighbouring "
    "runs share their noise.",
)
