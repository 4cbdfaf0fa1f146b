"""shard.cut.1: the parameters of a unit as equal shards."""

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def cut(weight: Tensor, bias: Tensor, ranks: int) -> Tensor:
    """Lay both flat end to end, pad with zeros to a multiple of the ranks, one row a rank."""
    flat = torch.cat([weight.flatten(), bias.flatten()])
    flat = torch.nn.functional.pad(flat, (0, -flat.numel() % ranks))
    return flat.view(ranks, -1)


def oracle(weight: list[list[float]], bias: list[float], ranks: int) -> list[list[float]]:
    """Number the entries; entry i belongs to rank i // size, where size is rounded up."""
    entries = [x for row in weight for x in row]
    entries += bias
    size = -(-len(entries) // ranks)
    return [
        [entries[r * size + i] if r * size + i < len(entries) else 0.0 for i in range(size)]
        for r in range(ranks)
    ]


def cases(draw: Draw) -> Case:
    """A small layer on one to five ranks."""
    out, into = draw.dimension(), draw.dimension()
    ranks = draw.integer(1, 5)
    inputs = {"weight": draw.normal(out, into), "bias": draw.normal(out), "ranks": ranks}
    return Case(f"({out}, {into}) on {ranks} ranks", inputs)


def layer(out: int, into: int) -> tuple[Tensor, Tensor]:
    """A weight and a bias whose entries are all different, none of them 0."""
    numbers = torch.arange(1.0, out * into + out + 1, dtype=torch.float64)
    return numbers[: out * into].view(out, into), numbers[out * into :]


def edges() -> tuple[Case, ...]:
    """One rank, sizes that do and do not divide, more ranks than numbers."""

    def case(name: str, out: int, into: int, ranks: int) -> Case:
        weight, bias = layer(out, into)
        return Case(name, {"weight": weight, "bias": bias, "ranks": ranks})

    return (
        case("one rank", 2, 2, 1),
        case("the hand example", 2, 3, 3),
        case("it divides", 2, 3, 2),
        case("it divides, four ranks", 3, 3, 4),
        case("more ranks than numbers", 1, 1, 5),
        case("a rank has only padding", 1, 4, 4),
        case("weight and bias each divide", 2, 1, 2),
    )


def _flat(weight: Tensor, bias: Tensor) -> Tensor:
    return torch.cat([weight.flatten(), bias])


def _rest_dropped(weight: Tensor, bias: Tensor, ranks: int) -> Tensor:
    flat = _flat(weight, bias)
    return flat[: flat.numel() // ranks * ranks].view(ranks, -1)


def _one_row_too_much(weight: Tensor, bias: Tensor, ranks: int) -> Tensor:
    flat = _flat(weight, bias)
    return torch.nn.functional.pad(flat, (0, ranks - flat.numel() % ranks)).view(ranks, -1)


def _padded_in_front(weight: Tensor, bias: Tensor, ranks: int) -> Tensor:
    flat = _flat(weight, bias)
    return torch.nn.functional.pad(flat, (-flat.numel() % ranks, 0)).view(ranks, -1)


def _dealt(weight: Tensor, bias: Tensor, ranks: int) -> Tensor:
    flat = _flat(weight, bias)
    return torch.nn.functional.pad(flat, (0, -flat.numel() % ranks)).view(-1, ranks).T.clone()


def _bias_first(weight: Tensor, bias: Tensor, ranks: int) -> Tensor:
    flat = torch.cat([bias, weight.flatten()])
    return torch.nn.functional.pad(flat, (0, -flat.numel() % ranks)).view(ranks, -1)


def _each_for_itself(weight: Tensor, bias: Tensor, ranks: int) -> Tensor:
    parts = [
        torch.nn.functional.pad(x.flatten(), (0, -x.numel() % ranks)).view(ranks, -1)
        for x in (weight, bias)
    ]
    return torch.cat(parts, 1)


def _columns(weight: Tensor, bias: Tensor, ranks: int) -> Tensor:
    return cut(weight.T, bias, ranks)


def _no_bias(weight: Tensor, bias: Tensor, ranks: int) -> Tensor:
    return cut(weight, bias[:0], ranks)


def _last_repeated(weight: Tensor, bias: Tensor, ranks: int) -> Tensor:
    flat = _flat(weight, bias)
    more = flat[-1:].expand(-flat.numel() % ranks)
    return torch.cat([flat, more]).view(ranks, -1)


CUT = Exercise(
    id="shard.cut.1",
    title="Cut a unit into shards",
    chapter=33,
    difficulty=1,
    minutes=10,
    goal=(
        "Lay a weight and then its bias flat end to end, pad with zeros at the end until the "
        "number of ranks divides the length, and give each rank an equal piece in order."
    ),
    outputs=(Output("shards", "(ranks, S)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=cut,
    mutants=(
        Mutant(
            "rest dropped",
            _rest_dropped,
            "what is left over after an equal division is dropped: those weights would never be "
            "trained. Round the size of a shard up and pad",
        ),
        Mutant(
            "a column too much",
            _one_row_too_much,
            "when the ranks divide the length, a whole column of padding is added: "
            "`ranks - n % ranks` is `ranks` there, `-n % ranks` is 0",
        ),
        Mutant(
            "padded in front",
            _padded_in_front,
            "the zeros stand in front: they belong at the end, so that a gathered tensor can be "
            "cut off there",
        ),
        Mutant(
            "dealt like cards",
            _dealt,
            "entries are dealt to the ranks one by one: each rank gets a piece that hangs together",
        ),
        Mutant(
            "bias first",
            _bias_first,
            "the bias stands before the weight; the order is weight, bias",
        ),
        Mutant(
            "each for itself",
            _each_for_itself,
            "weight and bias are padded and cut each for itself: one flat row for the unit is one "
            "message and one padding",
        ),
        Mutant(
            "columns first",
            _columns,
            "the weight is read column by column; `flatten` goes row by row",
        ),
        Mutant("bias left out", _no_bias, "the bias is left out: it is a parameter of the unit"),
        Mutant(
            "last entry repeated",
            _last_repeated,
            "the padding repeats the last entry; with zeros the padding can never change a norm",
        ),
    ),
    not_tested="that the whole weight is let go of afterwards, which is the point of it all.",
)
