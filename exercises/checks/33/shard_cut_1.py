"""shard.cut.1: the parameters of a unit as equal shards."""

from shard_layers import layer

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


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


CHECK = Check(
    id="shard.cut.1",
    outputs=(Output("shards", "(ranks, S)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "rest dropped",
            "torch.nn.functional.pad(flat, (0, -flat.numel() % ranks)).view(ranks, -1)",
            "flat[: flat.numel() // ranks * ranks].view(ranks, -1)",
            "what is left over after an equal division is dropped: those weights would "
            "never be trained. Round the size of a shard up and pad",
        ),
        edit(
            "a column too much",
            "-flat.numel() % ranks",
            "ranks - flat.numel() % ranks",
            "when the ranks divide the length, a whole column of padding is added: `ranks "
            "- n % ranks` is `ranks` there, `-n % ranks` is 0",
        ),
        edit(
            "padded in front",
            "(0, -flat.numel() % ranks)",
            "(-flat.numel() % ranks, 0)",
            "the zeros stand in front: they belong at the end, so that a gathered tensor "
            "can be cut off there",
        ),
        edit(
            "dealt like cards",
            ".view(ranks, -1)",
            ".view(-1, ranks).T.clone()",
            "entries are dealt to the ranks one by one: each rank gets a piece that hangs together",
        ),
        edit(
            "bias first",
            "[weight.flatten(), bias]",
            "[bias, weight.flatten()]",
            "the bias stands before the weight; the order is weight, bias",
        ),
        edit(
            "each for itself",
            "flat = torch.cat([weight.flatten(), bias])\n"
            "    return torch.nn.functional.pad(flat, (0, -flat.numel() % "
            "ranks)).view(ranks, -1)",
            "flat = [weight.flatten(), bias]\n"
            "    parts = [torch.nn.functional.pad(x, (0, -x.numel() % ranks)).view(ranks, "
            "-1) for x in flat]\n"
            "    return torch.cat(parts, 1)",
            "weight and bias are padded and cut each for itself: one flat row for the "
            "unit is one message and one padding",
        ),
        edit(
            "columns first",
            "weight.flatten()",
            "weight.T.flatten()",
            "the weight is read column by column; `flatten` goes row by row",
        ),
        edit(
            "bias left out",
            "torch.cat([weight.flatten(), bias])",
            "weight.flatten()",
            "the bias is left out: it is a parameter of the unit",
        ),
        edit(
            "last entry repeated",
            "torch.nn.functional.pad(flat, (0, -flat.numel() % ranks)).view(ranks, -1)",
            "torch.cat([flat, flat[-1:].expand(-flat.numel() % ranks)]).view(ranks, -1)",
            "the padding repeats the last entry; with zeros the padding can never change a norm",
        ),
    ),
    not_tested="that the whole weight is let go of afterwards, which is the point of it all.",
    wide=(
        "weight",
        "bias",
    ),
)
