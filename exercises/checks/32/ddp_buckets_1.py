"""ddp.buckets.1: which gradients travel together."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

Buckets = list[list[int]]


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


CHECK = Check(
    id="ddp.buckets.1",
    outputs=(Output("buckets", "lists of parameter numbers", "python"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "from the front",
            "reversed(range(len(sizes)))",
            "range(len(sizes))",
            "buckets are filled from the first parameter on, whose gradient appears last: "
            "then nothing can be sent before the backward pass has ended",
        ),
        edits(
            "filled from the front, then turned around",
            ("reversed(range(len(sizes)))", "range(len(sizes))"),
            ("return buckets", "return buckets[::-1]"),
            message="the buckets are filled from the front and only their list is turned around: "
            "go through the parameters from the last to the first",
        ),
        edit(
            "filled beyond the limit",
            "if not buckets or used + sizes[number] > limit:",
            "if not buckets or used >= limit:",
            "a bucket is closed only after it has gone over the limit: ask before you add",
        ),
        edit(
            "never filled to the byte",
            "used + sizes[number] > limit",
            "(used + sizes[number] >= limit)",
            "a bucket that would be exactly full is refused; `limit` bytes are allowed",
        ),
        edit(
            "large ones lost",
            "reversed(range(len(sizes))):",
            "reversed(range(len(sizes))):\n        if sizes[number] > limit:\n            continue",
            "a parameter larger than `limit` is in no bucket: its gradient would never be "
            "averaged. It gets a bucket of its own",
        ),
        edit(
            "into an earlier bucket",
            "        if not buckets or used + sizes[number] > limit:",
            "        room = [b for b in buckets if sum(sizes[n] for n in b) + "
            "sizes[number] <= limit]\n"
            "        if room:\n"
            "            room[0].append(number)\n"
            "            continue\n"
            "        if True:",
            "a parameter is put back into an earlier bucket that has room: that bucket "
            "would have left already, now it waits for a later gradient",
        ),
        edit(
            "largest first",
            "reversed(range(len(sizes)))",
            "sorted(range(len(sizes)), key=lambda n: (-sizes[n], -n))",
            "parameters are sorted by size; the order is that in which gradients appear",
        ),
        edit(
            "counted in parameters",
            "used + sizes[number]",
            "len(buckets[-1]) + 1",
            "`limit` is taken as a number of parameters; it is a number of bytes",
        ),
        edit(
            "never set back",
            "used = 0\n        buckets[-1].append(number)",
            "pass\n        buckets[-1].append(number)",
            "the bytes in use are not set back when a bucket is opened, so that every "
            "parameter after the first full bucket travels alone",
        ),
        edit(
            "last bucket left behind",
            "return buckets",
            "return buckets[:-1]",
            "the last bucket is missing: it has to be handed over although it is not full",
        ),
        edit(
            "an empty bucket",
            "= []",
            "= [[]]",
            "there can be an empty bucket, when the last parameter is too large or there "
            "is none: open a bucket only when something goes into it",
        ),
    ),
    not_tested="several types of number, which need buckets of their own, and parameters shared "
    "by two layers.",
    special=(
        ("limit", 0.0),
        ("limit", 1.0),
    ),
)
