"""ddp.streams.1: the same data for the run, other noise for every completion."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

Pair = tuple[list[int], list[int]]


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


CHECK = Check(
    id="ddp.streams.1",
    outputs=(
        Output("items", "a list, one for each completion", "python"),
        Output("places", "a list, one for each completion", "python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "every rank answers everything",
            "rows = [step * batch + start + i for i in range(share + (rank < left))]",
            "rows = [step * batch + i for i in range(batch)]",
            "each rank takes the whole batch: the ranks do the same work, and the "
            "gradient is that of one of them",
        ),
        edit(
            "places counted by each rank for itself",
            "places = [row * group_size + g for row in rows for g in range(group_size)]",
            "places = [step * batch * group_size + i for i in range(len(items))]",
            "places are counted from the step's first completion on every rank: all ranks "
            "would draw with the same noise",
        ),
        edit(
            "rank added",
            "places = [row * group_size + g for row in rows for g in range(group_size)]",
            "places = [step * batch * group_size + i + rank for i in range(len(items))]",
            "the rank is added to a place that each rank counts for itself: completion 1 "
            "of rank 0 and completion 0 of rank 1 share their noise. Count over all ranks",
        ),
        edit(
            "one place a prompt",
            "row * group_size + g for",
            "row for",
            "all completions of a prompt have one place: they would be identical, and the "
            "group would teach nothing",
        ),
        edit(
            "step forgotten",
            "row * group_size + g for",
            "(row - step * batch) * group_size + g for",
            "places begin anew at each step: the same noise would come back every time",
        ),
        edits(
            "rest lost",
            ("rank * share + min(rank, left)", "rank * share"),
            ("share + (rank < left)", "share"),
            message="prompts that are left over when the ranks do not divide the batch go to "
            "nobody; the first ranks take one more each",
        ),
        edits(
            "rest to the last rank",
            ("rank * share + min(rank, left)", "rank * share"),
            ("share + (rank < left)", "share + (left if rank == ranks - 1 else 0)"),
            message="the last rank takes all that is left over, and the others wait for it; the "
            "first ranks take one more each",
        ),
        edit(
            "dealt one by one",
            "rows = [step * batch + start + i for i in range(share + (rank < left))]",
            "rows = [step * batch + i for i in range(rank, batch, ranks)]",
            "prompts are dealt one by one (rank, rank + P, ...); here a rank takes a block",
        ),
        edit(
            "own order",
            "items = [order[row] for row in rows for _ in range(group_size)]",
            "turned = order[rank:] + order[:rank]\n"
            "    items = [turned[row] for row in rows for _ in range(group_size)]",
            "the order of the items depends on the rank: then some are answered twice and "
            "others never. The data's order is the same everywhere",
        ),
        edit(
            "steps overlap",
            "step * batch + start",
            "step * (share + (rank < left)) + start",
            "a step moves on by the rank's share instead of by the whole batch: items of "
            "one step come again in the next, on another rank",
        ),
    ),
    not_tested="the hash that makes a seed from a place; `seed + place` would make neighbouring "
    "runs share their noise.",
)
