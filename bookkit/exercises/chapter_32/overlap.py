"""ddp.overlap.1: when does the last message arrive?"""

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def finish(ready: list[float], seconds: list[float]) -> float:
    """One message at a time, each when its bucket is full and the wire is free."""
    free = 0.0
    for full, long in zip(ready, seconds, strict=True):
        free = max(free, full) + long
    return free


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


def _no_overlap(ready: list[float], seconds: list[float]) -> float:
    return max(ready, default=0.0) + sum(seconds)


def _many_wires(ready: list[float], seconds: list[float]) -> float:
    return max((a + b for a, b in zip(ready, seconds, strict=True)), default=0.0)


def _never_waits(ready: list[float], seconds: list[float]) -> float:
    return (ready[0] if ready else 0.0) + sum(seconds)


def _free_compute(ready: list[float], seconds: list[float]) -> float:
    return sum(seconds)


def _free_wire(ready: list[float], seconds: list[float]) -> float:
    return max(ready, default=0.0)


def _larger_of_both(ready: list[float], seconds: list[float]) -> float:
    return max(max(ready, default=0.0), sum(seconds))


def _one_behind(ready: list[float], seconds: list[float]) -> float:
    return (ready[-1] + seconds[-1]) if ready else 0.0


OVERLAP = Exercise(
    id="ddp.overlap.1",
    title="When does the last message arrive?",
    chapter=32,
    difficulty=2,
    minutes=15,
    goal=(
        "The second at which the last bucket has been summed, when bucket k is full at `ready[k]`, "
        "takes `seconds[k]` on the wire, and the wire carries one message at a time, in order."
    ),
    outputs=(Output("end", "a number of seconds", "number"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=finish,
    mutants=(
        Mutant(
            "no overlap",
            _no_overlap,
            "all messages wait for the last bucket: a bucket leaves as soon as it is full",
        ),
        Mutant(
            "a wire for each",
            _many_wires,
            "messages overlap with each other: a message waits until the one before it is through",
        ),
        Mutant(
            "never waits",
            _never_waits,
            "messages follow each other without a pause from the first bucket on; a message cannot "
            "leave before its bucket is full",
        ),
        Mutant(
            "backward pass for nothing",
            _free_compute,
            "`ready` is never used: the first message cannot leave at second 0",
        ),
        Mutant(
            "messages for nothing",
            _free_wire,
            "`seconds` is never used: the last bucket still has to travel",
        ),
        Mutant(
            "the larger of the two",
            _larger_of_both,
            "the larger of computing and sending is a lower bound: perfect overlap would need the "
            "first bucket at second 0 and a last one of no size",
        ),
        Mutant(
            "last bucket alone",
            _one_behind,
            "the last bucket leaves the moment it is full; the wire may still be busy with those "
            "before it",
        ),
    ),
    not_tested="that messages and arithmetic also slow each other down on one machine.",
)
