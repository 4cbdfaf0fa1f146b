"""zero.choose.1: the back-end that sends least among those that fit."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


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


CHECK = Check(
    id="zero.choose.1",
    outputs=(Output("word", "a str, or None", "python", may_be_none=True),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "least memory",
            "in rows:",
            "in rows[::-1]:",
            "it takes the one that needs least memory: the more is sharded or offloaded, "
            "the slower, so take the first that fits",
        ),
        edit(
            "no unit",
            "unit = 2 * largest_unit",
            "unit = 0",
            "stage 3 is counted without the unit that it gathers: its largest one lies "
            "there whole for a moment, 2 bytes a weight",
        ),
        edits(
            "unit at the wrong stages",
            ("16 * parameters, 0", "16 * parameters + unit, 0"),
            ("12 * shard, 0", "12 * shard + unit, 0"),
            ("14 * shard, 0", "14 * shard + unit, 0"),
            message="the gathered unit is counted below stage 3, where the weights are whole "
            "anyway",
        ),
        edit(
            "activations shared",
            "+ activations",
            "+ activations // ranks",
            "the activations are divided by the ranks: they belong to a rank's own rows, "
            "and no stage of ZeRO cuts them",
        ),
        edit(
            "activations forgotten",
            " + activations",
            "",
            "the activations are not counted: they lie beside the weights when the "
            "backward pass begins",
        ),
        edit(
            "host without end",
            " and there <= host",
            "",
            "the host is never asked: what is offloaded must fit somewhere",
        ),
        edit(
            "host of one rank",
            "ranks * 12",
            "12",
            "the host is asked for one rank's shard: all ranks of the machine keep theirs there",
        ),
        edit(
            "shard rounded down",
            "shard = -(-parameters // ranks)",
            "shard = parameters // ranks",
            "a shard is rounded down: the last one is padded, so S is N / P rounded up",
        ),
        edit(
            "shard not rounded",
            "shard = -(-parameters // ranks)",
            "shard = parameters / ranks",
            "a shard is not rounded: nobody holds a third of a weight. S is N / P rounded up",
        ),
        edit(
            "host of 12 N",
            "ranks * 12 * shard",
            "12 * parameters",
            "the host is asked for 12 N: the ranks keep padded shards there, P · 12 S",
        ),
        edit(
            "must be less",
            "activations <= device",
            "activations < device",
            "what fits to the byte is refused: needs may equal what is there",
        ),
        edit(
            "offload as a last resort",
            "            return word\n    return None",
            '            return word\n    return "zero3-offload"',
            "where nothing fits it answers with offload, which does not fit either; return None",
        ),
        edit(
            "stages 1 and 2 skipped",
            "in rows:",
            "in (rows[0], *rows[3:]):",
            "stages 1 and 2 are never chosen: they send no more than data parallelism does",
        ),
    ),
    not_tested="fragments and message buffers, for which you leave some of a real device free.",
)
