"""zero.memory.1: bytes of a device and of its host, by stage and offload."""

from typing import Any

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Answer = tuple[int, int]
WEIGHT, GRADIENT, OPTIMISER = 2, 2, 12
OFFLOADS = ("nothing", "optimiser", "optimiser and weights")


def zero_memory(parameters: int, ranks: int, stage: int, offload: str) -> Answer:
    """Round each shard up; what is offloaded lies on the host, once for each rank."""
    return _count(parameters, ranks, stage, offload)


def _count(
    parameters: int,
    ranks: int,
    stage: int,
    offload: str,
    *,
    first: tuple[int, int, int] = (3, 2, 1),
    optimiser_bytes: int = OPTIMISER,
    rounds: str = "up",
    hosts: str = "all",
    stays: bool = False,
    gradients_too: bool = False,
) -> Answer:
    shards = {"up": -(-parameters // ranks), "down": parameters // ranks, "not": parameters / ranks}
    shard: Any = shards[rounds]
    held = [shard if stage >= cut_at else parameters for cut_at in first]
    weights, gradients, optimiser = (
        n * size for n, size in zip(held, (WEIGHT, GRADIENT, optimiser_bytes), strict=True)
    )
    away = 0
    if offload != "nothing":
        away += optimiser + gradients * gradients_too
    if offload == "optimiser and weights":
        away += weights
    device = weights + gradients + optimiser - (0 if stays else away)
    return device, away * (ranks if hosts == "all" else 1)


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


def _all_cut(parameters: int, ranks: int, stage: int, offload: str) -> Answer:
    return _count(parameters, ranks, stage, offload, first=(1, 1, 1))


def _order_reversed(parameters: int, ranks: int, stage: int, offload: str) -> Answer:
    return _count(parameters, ranks, stage, offload, first=(1, 2, 3))


def _gradients_at_one(parameters: int, ranks: int, stage: int, offload: str) -> Answer:
    return _count(parameters, ranks, stage, offload, first=(3, 1, 1))


def _weights_at_two(parameters: int, ranks: int, stage: int, offload: str) -> Answer:
    return _count(parameters, ranks, stage, offload, first=(2, 2, 1))


def _optimiser_whole(parameters: int, ranks: int, stage: int, offload: str) -> Answer:
    return _count(parameters, ranks, stage, offload, first=(3, 2, 2))


def _no_copy(parameters: int, ranks: int, stage: int, offload: str) -> Answer:
    return _count(parameters, ranks, stage, offload, optimiser_bytes=8)


def _rounded_down(parameters: int, ranks: int, stage: int, offload: str) -> Answer:
    return _count(parameters, ranks, stage, offload, rounds="down")


def _fraction(parameters: int, ranks: int, stage: int, offload: str) -> Answer:
    return _count(parameters, ranks, stage, offload, rounds="not")


def _nothing_moves(parameters: int, ranks: int, stage: int, offload: str) -> Answer:
    return _count(parameters, ranks, stage, "nothing")


def _one_host_share(parameters: int, ranks: int, stage: int, offload: str) -> Answer:
    return _count(parameters, ranks, stage, offload, hosts="one")


def _still_there(parameters: int, ranks: int, stage: int, offload: str) -> Answer:
    return _count(parameters, ranks, stage, offload, stays=True)


def _gradients_away(parameters: int, ranks: int, stage: int, offload: str) -> Answer:
    return _count(parameters, ranks, stage, offload, gradients_too=True)


def _weights_stay(parameters: int, ranks: int, stage: int, offload: str) -> Answer:
    return _count(parameters, ranks, stage, "optimiser" if offload != "nothing" else offload)


MEMORY = Exercise(
    id="zero.memory.1",
    title="Bytes of a device and of its host",
    chapter=34,
    difficulty=2,
    minutes=15,
    goal=(
        "Bytes that a device holds under a ZeRO stage with 2 bytes a weight, 2 a gradient and 12 "
        "for the optimiser, and bytes that lie in the memory of the one host of all ranks. A shard "
        "is rounded up."
    ),
    outputs=(
        Output("device", "an int, bytes of one device", "python"),
        Output("host", "an int, bytes of all ranks on their host", "python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=zero_memory,
    mutants=(
        Mutant(
            "all cut at once",
            _all_cut,
            "weights, gradients and optimiser are all divided from stage 1 on: stage 1 cuts the "
            "optimiser, 2 the gradients as well, 3 the weights as well",
        ),
        Mutant(
            "order reversed",
            _order_reversed,
            "stage 1 cuts the weights and leaves the optimiser whole: the largest part comes "
            "first, so stage 1 cuts the optimiser",
        ),
        Mutant(
            "gradients at stage 1",
            _gradients_at_one,
            "the gradients are divided in stage 1 already: there every rank still holds all of "
            "them until the step",
        ),
        Mutant(
            "weights at stage 2",
            _weights_at_two,
            "the weights are divided in stage 2 already: every rank computes with whole weights "
            "until stage 3",
        ),
        Mutant(
            "optimiser whole in stage 1",
            _optimiser_whole,
            "in stage 1 the optimiser's state is not divided: that is just what stage 1 does",
        ),
        Mutant(
            "float32 copy forgotten",
            _no_copy,
            "the optimiser takes 8 bytes a weight: beside both moments there is a float32 copy of "
            "the weight, 12 in all",
        ),
        Mutant(
            "rounded down",
            _rounded_down,
            "a shard is rounded down: where the ranks do not divide the number, the rest would "
            "belong to nobody",
        ),
        Mutant(
            "not rounded",
            _fraction,
            "a shard is the bare quotient, a float: bytes are whole numbers, and `-(-a // b)` "
            "rounds up",
        ),
        Mutant(
            "nothing moves",
            _nothing_moves,
            "nothing is ever offloaded: the words are 'nothing', 'optimiser' and 'optimiser and "
            "weights', spelt so",
        ),
        Mutant(
            "one rank's host share",
            _one_host_share,
            "the host's bytes are those of one rank: all ranks of a machine share its memory",
        ),
        Mutant(
            "still on the device",
            _still_there,
            "what was offloaded is counted on the device as well: it lies on the host instead",
        ),
        Mutant(
            "gradients offloaded",
            _gradients_away,
            "the gradients are counted on the host: here only what `offload` names lies there",
        ),
        Mutant(
            "weights stay",
            _weights_stay,
            "'optimiser and weights' moves the optimiser alone: the shards of the weights lie on "
            "the host too",
        ),
    ),
    not_tested=(
        "activations, the block that stage 3 gathers, and the buffers for messages, which a real "
        "device holds as well."
    ),
)
