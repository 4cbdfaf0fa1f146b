"""async.bound.1: the most that overlapped sampling and training can give."""

from fractions import Fraction

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


def oracle(
    lengths: list[int],
    devices: int,
    slots: int,
    token_seconds: float,
    train_seconds: float,
    staleness: int,
) -> float:
    """In exact fractions; every split with all its bounds in one list."""
    token, learn = Fraction(token_seconds), Fraction(train_seconds)
    work = Fraction(sum(lengths))
    waits = token * sorted(lengths)[-1]
    apart = max(waits, token * work / (devices * slots)) + learn * work / devices
    best = None
    for training in range(1, devices):
        learns = learn * work / training
        bounds = [
            learns,
            token * work / ((devices - training) * slots),
            (waits + learns) / (1 + staleness),
        ]
        step = sorted(bounds)[-1]
        best = step if best is None or step < best else best
    if best is None:
        raise ValueError("one device cannot be split")
    return float(apart / best)


def cases(draw: Draw) -> Case:
    """Short and long completions; now sampling, now training, now the longest decides."""
    lengths = draw.integers(1, 30, draw.dimension()).tolist()
    if draw.integer(0, 1):
        lengths.append(draw.integer(40, 200))
    devices = draw.integer(2, 8)
    inputs = {
        "lengths": lengths, "devices": devices, "slots": draw.integer(1, 6),
        "token_seconds": float(draw.uniform(0.1, 2.0)),
        "train_seconds": float(draw.uniform(0.05, 2.0)), "staleness": draw.integer(0, 4),
    }  # fmt: skip
    return Case(f"{len(lengths)} completions, {devices} devices", inputs)


def edges() -> tuple[Case, ...]:
    """Two devices and many, each bound alone, no tail, a long one, staleness 0."""

    def case(
        name: str,
        lengths: list[int],
        devices: int,
        slots: int,
        token_seconds: float,
        train_seconds: float,
        staleness: int,
    ) -> Case:
        inputs = {
            "lengths": lengths, "devices": devices, "slots": slots,
            "token_seconds": token_seconds, "train_seconds": train_seconds,
            "staleness": staleness,
        }  # fmt: skip
        return Case(name, inputs)

    tail = [10, 10, 10, 90]
    return (
        case("one completion", [7], 2, 1, 1.0, 0.5, 1),
        case("the hand example", tail, 2, 4, 1.0, 0.5, 1),
        case("training decides", tail, 2, 4, 1.0, 0.5, 3),
        case("staleness 0", tail, 2, 4, 1.0, 0.5, 0),
        case("sampling decides", [20] * 12, 2, 2, 1.0, 0.1, 3),
        case("slots that are full", [20] * 12, 3, 2, 1.0, 0.4, 2),
        case("eight devices", tail, 8, 4, 1.0, 2.0, 6),
        case("eight devices, more training", tail, 8, 4, 0.5, 1.5, 2),
        case("hardly any training", tail, 4, 4, 1.0, 0.01, 2),
        case("a tail of a thousand, far ahead", [5] * 20 + [1000], 8, 8, 1.0, 0.02, 40),
        case("slow tokens", [3, 5, 4], 4, 1, 2.5, 0.2, 1),
    )


STEP = "max(busy, train, in_time)"

CHECK = Check(
    id="async.bound.1",
    outputs=(Output("speed-up", "a number", "number"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "nothing overlaps",
            STEP,
            "max(busy + train, in_time)",
            "sampling and training of a step are added: overlapped, they run at the same time, and "
            "the slower one decides",
        ),
        edit(
            "half and half",
            "range(1, devices)",
            "[devices // 2]",
            "only the split in halves is tried; take the best of all from 1 to devices - 1",
        ),
        edit(
            "the worst split",
            "synchronous / min(steps)",
            "synchronous / max(steps)",
            "the speed-up is that at the worst split: the shortest step is wanted",
        ),
        edit(
            "upside down",
            "synchronous / min(steps)",
            "min(steps) / synchronous",
            "the ratio is upside down: synchronous seconds over those of an overlapped step",
        ),
        edit(
            "no bound by staleness",
            STEP,
            "max(busy, train)",
            "`staleness` is never used: a completion must be drawn and trained on before its "
            "weights are too old, and the longest one decides that",
        ),
        edit(
            "trained on at no time",
            "(token_seconds * longest + train) / (staleness + 1)",
            "token_seconds * longest / (staleness + 1)",
            "training on the longest completion is left out of its time: the update in which it is "
            "used ends only after `train`",
        ),
        edit(
            "one step short",
            "/ (staleness + 1)",
            "/ max(1, staleness)",
            "a completion has η + 1 steps, not η: at staleness 1 it may be sampled through one "
            "step and trained on in the next",
        ),
        edit(
            "the longest in every step",
            STEP,
            "max(busy, train, in_time, token_seconds * longest)",
            "every step waits for the longest completion: with staleness, it goes on "
            "while the trainer takes further steps",
        ),
        edit(
            "every device does both",
            "steps = []",
            "steps = [max(token_seconds * total / (devices * slots), train_seconds * total "
            "/ devices)]",
            "a split is counted in which all devices sample and all devices train at once; "
            "each device does one of the two",
        ),
        edit(
            "no tail in the synchronous run",
            "max(longest, total / (devices * slots))",
            "total / (devices * slots)",
            "the synchronous run does not wait for its longest completion: then there is no "
            "stall that overlap could end",
        ),
        edit(
            "the tail alone in the synchronous run",
            "max(longest, total / (devices * slots))",
            "longest",
            "the synchronous run takes as long as its longest completion, however many "
            "there are: with few slots, the total decides",
        ),
        edit(
            "synchronous training on one device",
            "sample + train_seconds * total / devices",
            "sample + train_seconds * total",
            "in the synchronous run one device trains; all of them do",
        ),
        edit(
            "one slot",
            "total / (sampling * slots)",
            "total / sampling",
            "`slots` is never used in the overlapped run: a device decodes that many completions "
            "at once there, too",
        ),
    ),
    not_tested="devices that decode slower when more slots are in use, the time that new weights "
    "take to arrive, and weights that change in flight.",
    special=(
        ("slots", 1.0),
        ("token_seconds", 0.0),
        ("token_seconds", 1.0),
        ("train_seconds", 0.0),
        ("train_seconds", 1.0),
        ("staleness", 0.0),
        ("staleness", 1.0),
    ),
)
