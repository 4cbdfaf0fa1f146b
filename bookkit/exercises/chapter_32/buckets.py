"""ddp.buckets.1: which gradients travel together."""

from collections.abc import Sequence

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Buckets = list[list[int]]


def make_buckets(sizes: list[int], limit: int) -> Buckets:
    """Fill buckets from the last parameter on."""
    return _fill(range(len(sizes) - 1, -1, -1), sizes, limit)


def _fill(order: Sequence[int], sizes: list[int], limit: int, *, strict: bool = False) -> Buckets:
    buckets: Buckets = []
    used = 0
    for number in order:
        after = used + sizes[number]
        if not buckets or after > limit or (strict and after == limit):
            buckets.append([])
            after = sizes[number]
        buckets[-1].append(number)
        used = after
    return buckets


def oracle(sizes: list[int], limit: int) -> Buckets:
    """Cut the longest tail that fits off the list, or the last one if nothing fits; repeat."""
    buckets, end = [], len(sizes)
    while end:
        fits = [start for start in range(end) if sum(sizes[start:end]) <= limit]
        start = min(fits, default=end - 1)
        buckets.append(list(reversed(range(start, end))))
        end = start
    return buckets


def cases(draw: Draw) -> Case:
    """Small sizes, some over the limit."""
    sizes = draw.integers(1, 12, draw.dimension()).tolist()
    limit = draw.integer(4, 14)
    return Case(f"{len(sizes)} parameters, limit {limit}", {"sizes": sizes, "limit": limit})


def edges() -> tuple[Case, ...]:
    """No parameter, a full bucket, one over the limit, large and small in turn."""

    def case(name: str, sizes: list[int], limit: int) -> Case:
        return Case(name, {"sizes": sizes, "limit": limit})

    return (
        case("no parameter", [], 8),
        case("one parameter", [3], 8),
        case("filled to the byte", [4, 4, 4, 4], 8),
        case("the hand example", [6, 2, 5, 3, 4], 8),
        case("one is larger than the limit", [3, 9, 2], 8),
        case("the last is larger", [2, 3, 20], 8),
        case("the first is larger", [20, 2, 3], 8),
        case("room that a later one would fit", [2, 7, 2, 5], 8),
        case("all in one", [1, 1, 1], 100),
    )


def _forward(sizes: list[int], limit: int) -> Buckets:
    return _fill(range(len(sizes)), sizes, limit)


def _reversed_list(sizes: list[int], limit: int) -> Buckets:
    return _fill(range(len(sizes)), sizes, limit)[::-1]


def _overfull(sizes: list[int], limit: int) -> Buckets:
    buckets: Buckets = []
    used = limit
    for number in reversed(range(len(sizes))):
        if used >= limit:
            buckets.append([])
            used = 0
        buckets[-1].append(number)
        used += sizes[number]
    return buckets


def _strict(sizes: list[int], limit: int) -> Buckets:
    return _fill(range(len(sizes) - 1, -1, -1), sizes, limit, strict=True)


def _lost(sizes: list[int], limit: int) -> Buckets:
    small = [number for number in reversed(range(len(sizes))) if sizes[number] <= limit]
    return _fill(small, sizes, limit)


def _first_fit(sizes: list[int], limit: int) -> Buckets:
    buckets: Buckets = []
    used: list[int] = []
    for number in reversed(range(len(sizes))):
        fits = [b for b, u in enumerate(used) if u + sizes[number] <= limit]
        if fits:
            buckets[fits[0]].append(number)
            used[fits[0]] += sizes[number]
        else:
            buckets.append([number])
            used.append(sizes[number])
    return buckets


def _largest_first(sizes: list[int], limit: int) -> Buckets:
    order = sorted(range(len(sizes)), key=lambda number: (-sizes[number], -number))
    return _fill(order, sizes, limit)


def _by_count(sizes: list[int], limit: int) -> Buckets:
    return _fill(range(len(sizes) - 1, -1, -1), [1] * len(sizes), limit)


def _never_reset(sizes: list[int], limit: int) -> Buckets:
    buckets: Buckets = []
    used = 0
    for number in reversed(range(len(sizes))):
        used += sizes[number]
        if not buckets or used > limit:
            buckets.append([])
        buckets[-1].append(number)
    return buckets


def _last_unsent(sizes: list[int], limit: int) -> Buckets:
    return _fill(range(len(sizes) - 1, -1, -1), sizes, limit)[:-1]


def _empty_first(sizes: list[int], limit: int) -> Buckets:
    buckets: Buckets = [[]]
    used = 0
    for number in reversed(range(len(sizes))):
        if used + sizes[number] > limit:
            buckets.append([])
            used = 0
        buckets[-1].append(number)
        used += sizes[number]
    return buckets


BUCKETS = Exercise(
    id="ddp.buckets.1",
    title="Which gradients travel together",
    chapter=32,
    difficulty=2,
    minutes=15,
    goal=(
        "The numbers of the parameters by bucket, in the order in which their gradients appear: "
        "last parameter first, at most `limit` bytes a bucket, a larger parameter alone."
    ),
    outputs=(Output("buckets", "lists of parameter numbers", "python"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=make_buckets,
    mutants=(
        Mutant(
            "from the front",
            _forward,
            "buckets are filled from the first parameter on, whose gradient appears last: then "
            "nothing can be sent before the backward pass has ended",
        ),
        Mutant(
            "filled from the front, then turned around",
            _reversed_list,
            "the buckets are filled from the front and only their list is turned around: go "
            "through the parameters from the last to the first",
        ),
        Mutant(
            "filled beyond the limit",
            _overfull,
            "a bucket is closed only after it has gone over the limit: ask before you add",
        ),
        Mutant(
            "never filled to the byte",
            _strict,
            "a bucket that would be exactly full is refused; `limit` bytes are allowed",
        ),
        Mutant(
            "large ones lost",
            _lost,
            "a parameter larger than `limit` is in no bucket: its gradient would never be "
            "averaged. It gets a bucket of its own",
        ),
        Mutant(
            "into an earlier bucket",
            _first_fit,
            "a parameter is put back into an earlier bucket that has room: that bucket would have "
            "left already, now it waits for a later gradient",
        ),
        Mutant(
            "largest first",
            _largest_first,
            "parameters are sorted by size; the order is that in which gradients appear",
        ),
        Mutant(
            "counted in parameters",
            _by_count,
            "`limit` is taken as a number of parameters; it is a number of bytes",
        ),
        Mutant(
            "never set back",
            _never_reset,
            "the bytes in use are not set back when a bucket is opened, so that every parameter "
            "after the first full bucket travels alone",
        ),
        Mutant(
            "last bucket left behind",
            _last_unsent,
            "the last bucket is missing: it has to be handed over although it is not full",
        ),
        Mutant(
            "an empty bucket",
            _empty_first,
            "there can be an empty bucket, when the last parameter is too large or there is none: "
            "open a bucket only when something goes into it",
        ),
    ),
    not_tested="several types of number, which need buckets of their own, and parameters shared "
    "by two layers.",
)
