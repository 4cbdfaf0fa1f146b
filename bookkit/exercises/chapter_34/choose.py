"""zero.choose.1: the back-end that sends least among those that fit."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

WORDS = ("ddp", "zero1", "zero2", "zero3", "zero3-offload")


def choose(
    parameters: int, largest_unit: int, activations: int, ranks: int, device: int, host: int
) -> str | None:
    """Go from the least sharded to the most; take the first that fits."""
    return _choose(parameters, largest_unit, activations, ranks, device, host)


def _choose(
    parameters: int,
    largest_unit: int,
    activations: int,
    ranks: int,
    device: int,
    host: int,
    *,
    unit: bool = True,
    unit_always: bool = False,
    share_activations: bool = False,
    no_activations: bool = False,
    ask_host: bool = True,
    host_ranks: bool = True,
    strict: bool = False,
    words: tuple[str, ...] = WORDS,
    always: bool = False,
    rounded: str = "up",
    padded_host: bool = True,
) -> str | None:
    shard = {
        "up": -(-parameters // ranks),
        "down": parameters // ranks,
        "not": parameters / ranks,
    }[rounded]
    gathered = 2 * largest_unit * unit
    beside = 0 if no_activations else activations // ranks if share_activations else activations
    needs = {
        "ddp": 16 * parameters,
        "zero1": 4 * parameters + 12 * shard,
        "zero2": 2 * parameters + 14 * shard,
        "zero3": 16 * shard + gathered,
        "zero3-offload": 4 * shard + gathered,
    }
    if unit_always:
        needs = {w: n + (gathered if "3" not in w else 0) for w, n in needs.items()}
    for word in words:
        total = needs[word] + beside
        if total > device or (strict and total == device):
            continue
        away = 12 * shard * (ranks if host_ranks else 1) if padded_host else 12 * parameters
        if word == "zero3-offload" and ask_host and away > host:
            continue
        return word
    return words[-1] if always else None


def oracle(
    parameters: int, largest_unit: int, activations: int, ranks: int, device: int, host: int
) -> str | None:
    """Write out what each back-end holds, piece by piece, and cross out what does not fit."""
    piece = len(range(0, parameters, ranks))
    rows = [
        ("ddp", [(2, parameters), (2, parameters), (12, parameters)], []),
        ("zero1", [(2, parameters), (2, parameters), (12, piece)], []),
        ("zero2", [(2, parameters), (2, piece), (12, piece)], []),
        ("zero3", [(2, piece), (2, piece), (12, piece), (2, largest_unit)], []),
        ("zero3-offload", [(2, piece), (2, piece), (2, largest_unit)], [(12, piece)]),
    ]
    left = []
    for word, here, there in rows:
        on_device = sum(size * count for size, count in here) + activations
        on_host = sum(size * count for size, count in there) * ranks
        if on_device <= device and on_host <= host:
            left.append(word)
    return left[0] if left else None


def cases(draw: Draw) -> Case:
    """A device that holds anything from nothing to everything."""
    parameters, ranks = draw.integer(20, 100), draw.integer(1, 8)
    inputs = {
        "parameters": parameters,
        "largest_unit": draw.integer(1, parameters // 4),
        "activations": draw.integer(0, 200),
        "ranks": ranks,
        "device": draw.integer(2 * parameters, 20 * parameters),
        "host": draw.choice([0, 12 * parameters, 20 * parameters]),
    }
    return Case(f"{parameters} weights on {ranks} devices", inputs)


def edges() -> tuple[Case, ...]:
    """100 weights, units of 10, four devices: 1600, 700, 550, 420 and 120 bytes, and between.

    On three devices a shard is 34, not 33⅓: 1600, 808, 676, 564 and 156 bytes.
    """

    def case(
        name: str, device: int, host: int = 0, activations: int = 50, ranks: int = 4, unit: int = 10
    ) -> Case:
        inputs = {
            "parameters": 100, "largest_unit": unit, "activations": activations, "ranks": ranks,
            "device": device, "host": host,
        }  # fmt: skip
        return Case(name, inputs)

    return (
        case("everything fits", 4000, 4000),
        case("data parallelism fits exactly", 1650, 4000),
        case("one byte short of data parallelism", 1649, 4000),
        case("stage 1 fits exactly", 750, 4000),
        case("one byte short of stage 1", 749, 4000),
        case("stage 2 fits exactly", 600, 4000),
        case("one byte short of stage 2", 599, 4000),
        case("stage 3 fits exactly, the hand example", 470, 0),
        case("one byte short of stage 3", 469, 4000),
        case("no host memory", 469, 0),
        case("the host fits exactly", 300, 1200),
        case("the host is one byte short", 300, 1199),
        case("offload fits exactly", 170, 1200),
        case("nothing fits", 169, 4000),
        case("one device", 1650, 0, ranks=1),
        case("one device, too small", 1649, 2000, ranks=1),
        case("large units", 600, 4000, unit=60),
        case("a unit that stage 3 cannot gather", 500, 0, unit=60),
        case("many activations", 1700, 4000, activations=1000),
        case("activations alone fill it", 900, 4000, activations=900),
        case("no activations", 420, 0, activations=0),
        case("activations beside stage 2", 640, 0, activations=100),
        case("three devices, data parallelism fits exactly", 1650, 0, ranks=3),
        case("three devices, one byte short of data parallelism", 1649, 0, ranks=3),
        case("three devices, stage 1 fits exactly", 858, 0, ranks=3),
        case("three devices, one byte short of stage 1", 857, 0, ranks=3),
        case("three devices, stage 1 with shards of 33", 848, 0, ranks=3),
        case("three devices, stage 2 fits exactly", 726, 0, ranks=3),
        case("three devices, one byte short of stage 2", 725, 0, ranks=3),
        case("three devices, stage 3 fits exactly", 614, 0, ranks=3),
        case("three devices, one byte short of stage 3", 613, 0, ranks=3),
        case("three devices, offload fits exactly", 206, 1224, ranks=3),
        case("three devices, one byte short of offload", 205, 1224, ranks=3),
        case("three devices, the host is one byte short", 613, 1223, ranks=3),
    )


def _least_memory(
    parameters: int, largest_unit: int, activations: int, ranks: int, device: int, host: int
) -> str | None:
    return _choose(parameters, largest_unit, activations, ranks, device, host, words=WORDS[::-1])


def _no_unit(
    parameters: int, largest_unit: int, activations: int, ranks: int, device: int, host: int
) -> str | None:
    return _choose(parameters, largest_unit, activations, ranks, device, host, unit=False)


def _unit_everywhere(
    parameters: int, largest_unit: int, activations: int, ranks: int, device: int, host: int
) -> str | None:
    return _choose(parameters, largest_unit, activations, ranks, device, host, unit_always=True)


def _activations_shared(
    parameters: int, largest_unit: int, activations: int, ranks: int, device: int, host: int
) -> str | None:
    return _choose(
        parameters, largest_unit, activations, ranks, device, host, share_activations=True
    )


def _activations_forgotten(
    parameters: int, largest_unit: int, activations: int, ranks: int, device: int, host: int
) -> str | None:
    return _choose(parameters, largest_unit, activations, ranks, device, host, no_activations=True)


def _host_endless(
    parameters: int, largest_unit: int, activations: int, ranks: int, device: int, host: int
) -> str | None:
    return _choose(parameters, largest_unit, activations, ranks, device, host, ask_host=False)


def _host_of_one(
    parameters: int, largest_unit: int, activations: int, ranks: int, device: int, host: int
) -> str | None:
    return _choose(parameters, largest_unit, activations, ranks, device, host, host_ranks=False)


def _rounded_down(
    parameters: int, largest_unit: int, activations: int, ranks: int, device: int, host: int
) -> str | None:
    return _choose(parameters, largest_unit, activations, ranks, device, host, rounded="down")


def _not_rounded(
    parameters: int, largest_unit: int, activations: int, ranks: int, device: int, host: int
) -> str | None:
    return _choose(parameters, largest_unit, activations, ranks, device, host, rounded="not")


def _host_not_padded(
    parameters: int, largest_unit: int, activations: int, ranks: int, device: int, host: int
) -> str | None:
    return _choose(parameters, largest_unit, activations, ranks, device, host, padded_host=False)


def _must_be_less(
    parameters: int, largest_unit: int, activations: int, ranks: int, device: int, host: int
) -> str | None:
    return _choose(parameters, largest_unit, activations, ranks, device, host, strict=True)


def _always_offload(
    parameters: int, largest_unit: int, activations: int, ranks: int, device: int, host: int
) -> str | None:
    return _choose(parameters, largest_unit, activations, ranks, device, host, always=True)


def _no_middle(
    parameters: int, largest_unit: int, activations: int, ranks: int, device: int, host: int
) -> str | None:
    return _choose(
        parameters, largest_unit, activations, ranks, device, host,
        words=("ddp", "zero3", "zero3-offload"),
    )  # fmt: skip


CHOOSE = Exercise(
    id="zero.choose.1",
    title="The back-end for a budget of memory",
    chapter=34,
    difficulty=3,
    minutes=20,
    goal=(
        "The first of 'ddp', 'zero1', 'zero2', 'zero3' and 'zero3-offload' (optimiser on the host) "
        "that fits the device and the host; None if none does."
    ),
    outputs=(Output("word", "a str, or None", "python", may_be_none=True),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=choose,
    mutants=(
        Mutant(
            "least memory",
            _least_memory,
            "it takes the one that needs least memory: the more is sharded or offloaded, the "
            "slower, so take the first that fits",
        ),
        Mutant(
            "no unit",
            _no_unit,
            "stage 3 is counted without the unit that it gathers: its largest one lies there whole "
            "for a moment, 2 bytes a weight",
        ),
        Mutant(
            "unit at the wrong stages",
            _unit_everywhere,
            "the gathered unit is counted below stage 3, where the weights are whole anyway",
        ),
        Mutant(
            "activations shared",
            _activations_shared,
            "the activations are divided by the ranks: they belong to a rank's own rows, and no "
            "stage of ZeRO cuts them",
        ),
        Mutant(
            "activations forgotten",
            _activations_forgotten,
            "the activations are not counted: they lie beside the weights when the backward pass "
            "begins",
        ),
        Mutant(
            "host without end",
            _host_endless,
            "the host is never asked: what is offloaded must fit somewhere",
        ),
        Mutant(
            "host of one rank",
            _host_of_one,
            "the host is asked for one rank's shard: all ranks of the machine keep theirs there",
        ),
        Mutant(
            "shard rounded down",
            _rounded_down,
            "a shard is rounded down: the last one is padded, so S is N / P rounded up",
        ),
        Mutant(
            "shard not rounded",
            _not_rounded,
            "a shard is not rounded: nobody holds a third of a weight. S is N / P rounded up",
        ),
        Mutant(
            "host of 12 N",
            _host_not_padded,
            "the host is asked for 12 N: the ranks keep padded shards there, P · 12 S",
        ),
        Mutant(
            "must be less",
            _must_be_less,
            "what fits to the byte is refused: needs may equal what is there",
        ),
        Mutant(
            "offload as a last resort",
            _always_offload,
            "where nothing fits it answers with offload, which does not fit either; return None",
        ),
        Mutant(
            "stages 1 and 2 skipped",
            _no_middle,
            "stages 1 and 2 are never chosen: they send no more than data parallelism does",
        ),
    ),
    not_tested="fragments and message buffers, for which you leave some of a real device free.",
)
