"""ddp.overlap.1: when does the last message arrive?"""

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


def oracle(ready: list[float], seconds: list[float]) -> float:
    """The last stretch without a pause begins with some bucket: the latest end over all of them."""
    return max((full + sum(seconds[k:]) for k, full in enumerate(ready)), default=0.0)


def cases(draw: Draw) -> Case:
    """Buckets in order, messages short and long."""
    number = draw.dimension()
    gaps = draw.uniform(0.0, 3.0, number)
    ready = [round(value, 2) for value in gaps.cumsum(0).tolist()]
    inputs = {"ready": ready, "seconds": draw.uniform(0.1, 3.0, number).tolist()}
    return Case(f"{number} buckets", inputs)


def edges() -> tuple[Case, ...]:
    """No bucket, one, a wire that waits, a wire that is busy, both."""

    def case(name: str, ready: list[float], seconds: list[float]) -> Case:
        return Case(name, {"ready": ready, "seconds": seconds})

    return (
        case("no bucket", [], []),
        case("one bucket", [2.0], [3.0]),
        case("the wire waits", [1.0, 5.0], [1.0, 1.0]),
        case("the wire is busy", [1.0, 2.0], [4.0, 1.0]),
        case("the hand example", [1.0, 2.0, 6.0], [2.0, 3.0, 1.0]),
        case("all full at once", [2.0, 2.0, 2.0], [1.0, 3.0, 2.0]),
        case("waits, then is busy", [0.0, 4.0, 5.0, 5.5], [1.0, 3.0, 1.0, 0.5]),
        case("busy, then waits", [1.0, 1.5, 9.0], [2.0, 2.0, 0.5]),
    )


CHECK = Check(
    id="ddp.overlap.1",
    outputs=(Output("end", "a number of seconds", "number"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "no overlap",
            "0.0",
            "max(ready, default=0.0)",
            "all messages wait for the last bucket: a bucket leaves as soon as it is full",
        ),
        edit(
            "a wire for each",
            "(free, full) + long",
            "((a + b for a, b in zip(ready, seconds, strict=True)), default=0.0)",
            "messages overlap with each other: a message waits until the one before it is through",
        ),
        edit(
            "never waits",
            ", full",
            ", ready[0]",
            "messages follow each other without a pause from the first bucket on; a "
            "message cannot leave before its bucket is full",
        ),
        edit(
            "backward pass for nothing",
            ", full",
            ", free",
            "`ready` is never used: the first message cannot leave at second 0",
        ),
        edit(
            "messages for nothing",
            " + long",
            "",
            "`seconds` is never used: the last bucket still has to travel",
        ),
        edit(
            "the larger of the two",
            "(free, full) + long",
            "(max(ready, default=0.0), sum(seconds))",
            "the larger of computing and sending is a lower bound: perfect overlap would "
            "need the first bucket at second 0 and a last one of no size",
        ),
        edit(
            "last bucket alone",
            "free,",
            "full,",
            "the last bucket leaves the moment it is full; the wire may still be busy "
            "with those before it",
        ),
    ),
    not_tested="that messages and arithmetic also slow each other down on one machine.",
)
