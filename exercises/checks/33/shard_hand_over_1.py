"""shard.hand_over.1: who sends what when training shards become a sampler's pieces."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

Message = tuple[int, int, int, int, int, int]


def oracle(rows: int, columns: int, ranks: int, dimension: int) -> list[Message]:
    """Ask of every entry who has it and who wants it; a message is the box of its entries."""
    size = -(-rows // ranks)
    boxes: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for i in range(rows):
        for j in range(columns):
            has = i // size
            wants = i * ranks // rows if dimension == 0 else j * ranks // columns
            if has != wants:
                boxes.setdefault((has, wants), []).append((i, j))
    return [
        (
            has,
            wants,
            min(i for i, _ in entries),
            max(i for i, _ in entries) + 1,
            min(j for _, j in entries),
            max(j for _, j in entries) + 1,
        )
        for (has, wants), entries in sorted(boxes.items())
    ]


def cases(draw: Draw) -> Case:
    """The sampler's dimension is divided by the ranks; the rows of training may not be."""
    ranks, dimension = draw.integer(1, 4), draw.integer(0, 1)
    rows = ranks * draw.integer(1, 3) if dimension == 0 else draw.integer(1, 9)
    columns = draw.integer(1, 4) if dimension == 0 else ranks * draw.integer(1, 2)
    inputs = {"rows": rows, "columns": columns, "ranks": ranks, "dimension": dimension}
    return Case(f"({rows}, {columns}) on {ranks} ranks, along {dimension}", inputs)


def edges() -> tuple[Case, ...]:
    """One rank, both dimensions, rows that do not divide, fewer rows than ranks."""

    def case(name: str, rows: int, columns: int, ranks: int, dimension: int) -> Case:
        inputs = {"rows": rows, "columns": columns, "ranks": ranks, "dimension": dimension}
        return Case(name, inputs)

    return (
        case("one rank", 3, 2, 1, 1),
        case("the hand example", 4, 6, 2, 1),
        case("along the rows", 4, 6, 2, 0),
        case("rows that do not divide", 5, 4, 2, 1),
        case("three ranks", 3, 6, 3, 1),
        case("rows left over on three ranks", 7, 3, 3, 1),
        case("a rank without rows", 2, 3, 3, 1),
        case("fewer rows than ranks", 1, 4, 4, 1),
        case("square", 4, 4, 2, 1),
    )


CHECK = Check(
    id="shard.hand_over.1",
    outputs=(Output("messages", "list of tuples of six numbers", "python"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "to itself",
            "source != target and ",
            "",
            "ranks send to themselves: what a rank has already stays where it is",
        ),
        edit(
            "rows rounded down",
            "-(-rows // ranks)",
            "rows // ranks",
            "a shard has floor(rows / ranks) rows, so the last rows belong to nobody: "
            "round up; the last ranks may have fewer, or none",
        ),
        edit(
            "gather and split",
            "            if source != target",
            "            top, bottom, left, right = source * size, min((source + 1) * "
            "size, rows), 0, columns\n"
            "            if source != target",
            "every shard goes whole to every rank: that is gather-and-split, and P times "
            "the bytes. Send what the target keeps",
        ),
        edits(
            "empty messages",
            ("and top < bottom", "and (dimension == 1 or top < bottom)"),
            ("right = source * size,", "right = min(source * size, rows),"),
            message="messages without a row are listed: a rank whose shard is empty sends nothing",
        ),
        edit(
            "whole rows",
            "left, right = target * part, (target + 1) * part",
            "pass",
            "along dimension 1 whole rows are sent: the target keeps only its columns",
        ),
        edit(
            "rows counted in the shard",
            "messages.append((source, target, top, bottom, left, right))",
            "first = source * size\n"
            "                messages.append((source, target, top - first, bottom - "
            "first, left, right))",
            "rows are counted from the top of the shard; here they are those of the whole weight",
        ),
        edit(
            "past the end",
            "messages.append((source, target, top, bottom, left, right))",
            "end = bottom if dimension == 0 else (source + 1) * size\n"
            "                messages.append((source, target, top, end, left, right))",
            "the end row lies behind the weight: the last shard may be shorter than the others",
        ),
        edit(
            "through rank 0",
            "    messages = []\n",
            "    if dimension == 0:\n"
            "        return []\n"
            "    part, others = columns // ranks, range(1, ranks)\n"
            "    ends = {r: (r * size, min((r + 1) * size, rows)) for r in others if r * "
            "size < rows}\n"
            "    collected = [(r, 0, *rows_of_r, 0, columns) for r, rows_of_r in "
            "ends.items()]\n"
            "    return [(0, r, 0, rows, r * part, (r + 1) * part) for r in others] + "
            "collected\n"
            "    messages = []\n",
            "everything goes through rank 0, which then holds the whole weight and sends "
            "alone: let each rank send to each",
        ),
        edit(
            "source and target exchanged",
            "return messages",
            "return sorted((t, s, *rest) for s, t, *rest in messages)",
            "source and target are exchanged: the source has the rows, the target wants columns",
        ),
        edit(
            "dimensions exchanged",
            "dimension == 0",
            "dimension == 1",
            "the dimensions are exchanged: along 0 the pieces are rows, as the shards "
            "are; along 1 they are columns",
        ),
        edit(
            "not sorted",
            "return messages",
            "return sorted(messages, key=lambda message: (message[1], message[0]))",
            "the messages are right, but not sorted: they are listed target by target; by "
            "source first, then by target",
        ),
    ),
    not_tested="several shards of a replica, and samplers with fewer ranks than the trainer.",
)
