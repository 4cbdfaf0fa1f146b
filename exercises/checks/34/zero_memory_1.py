"""zero.memory.1: bytes of a device and of its host, by stage and offload."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

Answer = tuple[int, int]


OFFLOADS = ("nothing", "optimiser", "optimiser and weights")


def oracle(parameters: int, ranks: int, stage: int, offload: str) -> Answer:
    """Deal the numbers out one by one; look at the rank that has most."""
    most = len(range(0, parameters, ranks))
    rows = [
        (2, 3, offload == "optimiser and weights"),
        (2, 2, False),
        (12, 1, offload != "nothing"),
    ]
    device = host = 0
    for size, cut_at, is_away in rows:
        here = size * (parameters if stage < cut_at else most)
        if is_away:
            for _ in range(ranks):
                host += here
        else:
            device += here
    return device, host


def cases(draw: Draw) -> Case:
    """Any stage, ranks that seldom divide."""
    stage = draw.integer(0, 3)
    offload = draw.choice(OFFLOADS if stage == 3 else OFFLOADS[:2] if stage else OFFLOADS[:1])
    inputs = {
        "parameters": draw.integer(1, 100), "ranks": draw.integer(1, 8), "stage": stage,
        "offload": offload,
    }  # fmt: skip
    return Case(f"stage {stage}, {offload} offloaded", inputs)


def edges() -> tuple[Case, ...]:
    """Each stage, with and without offload, one rank, more ranks than numbers."""

    def case(name: str, parameters: int, ranks: int, stage: int, offload: str = "nothing") -> Case:
        inputs = {"parameters": parameters, "ranks": ranks, "stage": stage, "offload": offload}
        return Case(name, inputs)

    return (
        case("stage 0", 8, 4, 0),
        case("stage 1", 8, 4, 1),
        case("stage 2", 8, 4, 2),
        case("stage 3, the hand example", 10, 4, 3),
        case("one rank", 7, 1, 3),
        case("more ranks than numbers", 3, 8, 3),
        case("stage 1, optimiser offloaded", 10, 4, 1, "optimiser"),
        case("stage 2, optimiser offloaded", 10, 4, 2, "optimiser"),
        case("stage 3, optimiser offloaded", 10, 4, 3, "optimiser"),
        case("stage 3, both offloaded", 10, 4, 3, "optimiser and weights"),
        case("one rank, both offloaded", 5, 1, 3, "optimiser and weights"),
        case("the table of the paper", 7_500_000_000, 64, 3),
    )


CHECK = Check(
    id="zero.memory.1",
    outputs=(
        Output("device", "an int, bytes of one device", "python"),
        Output("host", "an int, bytes of all ranks on their host", "python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edits(
            "all cut at once",
            ("stage >= 2", "stage >= 1"),
            ("stage >= 3", "stage >= 1"),
            message="weights, gradients and optimiser are all divided from stage 1 on: stage 1 "
            "cuts the optimiser, 2 the gradients as well, 3 the weights as well",
        ),
        edits(
            "order reversed",
            ("(shard if stage >= 1", "(shard if stage >= 3"),
            (
                "2 * (shard if stage >= 3 else parameters)\n    away",
                "2 * (shard if stage >= 1 else parameters)\n    away",
            ),
            message="stage 1 cuts the weights and leaves the optimiser whole: the largest part "
            "comes first, so stage 1 cuts the optimiser",
        ),
        edit(
            "gradients at stage 1",
            "stage >= 2",
            "stage >= 1",
            "the gradients are divided in stage 1 already: there every rank still holds "
            "all of them until the step",
        ),
        edit(
            "weights at stage 2",
            "stage >= 3",
            "stage >= 2",
            "the weights are divided in stage 2 already: every rank computes with whole "
            "weights until stage 3",
        ),
        edit(
            "optimiser whole in stage 1",
            "stage >= 1",
            "stage >= 2",
            "in stage 1 the optimiser's state is not divided: that is just what stage 1 does",
        ),
        edit(
            "float32 copy forgotten",
            "12 *",
            "8 *",
            "the optimiser takes 8 bytes a weight: beside both moments there is a float32 "
            "copy of the weight, 12 in all",
        ),
        edit(
            "rounded down",
            "shard = -(-parameters // ranks)",
            "shard = parameters // ranks",
            "a shard is rounded down: where the ranks do not divide the number, the rest "
            "would belong to nobody",
        ),
        edit(
            "not rounded",
            "shard = -(-parameters // ranks)",
            "shard = parameters / ranks",
            "a shard is the bare quotient, a float: bytes are whole numbers, and `-(-a // "
            "b)` rounds up",
        ),
        edit(
            "nothing moves",
            "    return weights",
            "    away = 0\n    return weights",
            "nothing is ever offloaded: the words are 'nothing', 'optimiser' and "
            "'optimiser and weights', spelt so",
        ),
        edit(
            "one rank's host share",
            "ranks * away",
            "away",
            "the host's bytes are those of one rank: all ranks of a machine share its memory",
        ),
        edit(
            "still on the device",
            "optimiser - away",
            "optimiser",
            "what was offloaded is counted on the device as well: it lies on the host instead",
        ),
        edit(
            "gradients offloaded",
            "away += optimiser\n",
            "away += optimiser + gradients\n",
            "the gradients are counted on the host: here only what `offload` names lies there",
        ),
        edit(
            "weights stay",
            "        away += weights\n",
            "        pass\n",
            "'optimiser and weights' moves the optimiser alone: the shards of the weights "
            "lie on the host too",
        ),
    ),
    not_tested=(
        "activations, the block that stage 3 gathers, and the buffers for messages, which a real "
        "device holds as well."
    ),
    special=(("parameters", 1.0),),
)
