"""shard.hand_over.1: who sends what when training shards become a sampler's pieces."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Message = tuple[int, int, int, int, int, int]


def plan(rows: int, columns: int, ranks: int, dimension: int) -> list[Message]:
    """Meet every shard with every piece; what they share, and does not stay, is a message."""
    return _plan(rows, columns, ranks, dimension)


def _plan(
    rows: int,
    columns: int,
    ranks: int,
    dimension: int,
    *,
    to_itself: bool = False,
    floor: bool = False,
    everything: bool = False,
    empty: bool = False,
    whole_rows: bool = False,
    local: bool = False,
) -> list[Message]:
    size = rows // ranks if floor else -(-rows // ranks)
    found: list[Message] = []
    for source in range(ranks):
        top, bottom = min(source * size, rows), min((source + 1) * size, rows)
        for target in range(ranks):
            if source == target and not to_itself:
                continue
            first, last, left, right = top, bottom, 0, columns
            if dimension == 0 and not everything:
                part = rows // ranks
                first, last = max(top, target * part), min(bottom, (target + 1) * part)
            elif not everything and not whole_rows:
                part = columns // ranks
                left, right = target * part, (target + 1) * part
            if last > first or empty:
                shift = top if local else 0
                message = (source, target, first - shift, max(last, first) - shift, left, right)
                found.append(message)
    return found


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


def _to_itself(rows: int, columns: int, ranks: int, dimension: int) -> list[Message]:
    return _plan(rows, columns, ranks, dimension, to_itself=True)


def _floor(rows: int, columns: int, ranks: int, dimension: int) -> list[Message]:
    return _plan(rows, columns, ranks, dimension, floor=True)


def _everything(rows: int, columns: int, ranks: int, dimension: int) -> list[Message]:
    return _plan(rows, columns, ranks, dimension, everything=True)


def _empty(rows: int, columns: int, ranks: int, dimension: int) -> list[Message]:
    if dimension == 0:
        return _plan(rows, columns, ranks, dimension)
    return _plan(rows, columns, ranks, dimension, empty=True)


def _whole_rows(rows: int, columns: int, ranks: int, dimension: int) -> list[Message]:
    return _plan(rows, columns, ranks, dimension, whole_rows=True)


def _local(rows: int, columns: int, ranks: int, dimension: int) -> list[Message]:
    return _plan(rows, columns, ranks, dimension, local=True)


def _past_the_end(rows: int, columns: int, ranks: int, dimension: int) -> list[Message]:
    size = -(-rows // ranks)
    return [
        (s, t, a, (s + 1) * size if dimension == 1 else b, c, d)
        for s, t, a, b, c, d in _plan(rows, columns, ranks, dimension)
    ]


def _through_rank_0(rows: int, columns: int, ranks: int, dimension: int) -> list[Message]:
    size = -(-rows // ranks)
    if dimension == 0:
        return []
    part = columns // ranks
    collected: list[Message] = [
        (r, 0, r * size, min((r + 1) * size, rows), 0, columns)
        for r in range(1, ranks)
        if r * size < rows
    ]
    sent = [(0, r, 0, rows, r * part, (r + 1) * part) for r in range(1, ranks)]
    return sorted(collected + sent)


def _exchanged(rows: int, columns: int, ranks: int, dimension: int) -> list[Message]:
    swapped = [(t, s, a, b, c, d) for s, t, a, b, c, d in _plan(rows, columns, ranks, dimension)]
    return sorted(swapped)


def _dimensions(rows: int, columns: int, ranks: int, dimension: int) -> list[Message]:
    return _plan(rows, columns, ranks, 1 - dimension)


def _by_target(rows: int, columns: int, ranks: int, dimension: int) -> list[Message]:
    return sorted(_plan(rows, columns, ranks, dimension), key=lambda m: (m[1], m[0]))


HAND_OVER = Exercise(
    id="shard.hand_over.1",
    title="The plan of a hand-over",
    chapter=33,
    difficulty=4,
    minutes=30,
    goal=(
        "All messages (source, target, first row, end row, first column, end column) that turn "
        "row shards of training, of ceil(rows / ranks) rows, into a sampler's equal pieces along "
        "a dimension; sorted, without what a rank has already, and without empty ones."
    ),
    outputs=(Output("messages", "list of tuples of six numbers", "python"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=plan,
    mutants=(
        Mutant(
            "to itself",
            _to_itself,
            "ranks send to themselves: what a rank has already stays where it is",
        ),
        Mutant(
            "rows rounded down",
            _floor,
            "a shard has floor(rows / ranks) rows, so the last rows belong to nobody: round up; "
            "the last ranks may have fewer, or none",
        ),
        Mutant(
            "gather and split",
            _everything,
            "every shard goes whole to every rank: that is gather-and-split, and P times the "
            "bytes. Send what the target keeps",
        ),
        Mutant(
            "empty messages",
            _empty,
            "messages without a row are listed: a rank whose shard is empty sends nothing",
        ),
        Mutant(
            "whole rows",
            _whole_rows,
            "along dimension 1 whole rows are sent: the target keeps only its columns",
        ),
        Mutant(
            "rows counted in the shard",
            _local,
            "rows are counted from the top of the shard; here they are those of the whole weight",
        ),
        Mutant(
            "past the end",
            _past_the_end,
            "the end row lies behind the weight: the last shard may be shorter than the others",
        ),
        Mutant(
            "through rank 0",
            _through_rank_0,
            "everything goes through rank 0, which then holds the whole weight and sends alone: "
            "let each rank send to each",
        ),
        Mutant(
            "source and target exchanged",
            _exchanged,
            "source and target are exchanged: the source has the rows, the target wants columns",
        ),
        Mutant(
            "dimensions exchanged",
            _dimensions,
            "the dimensions are exchanged: along 0 the pieces are rows, as the shards are; along 1 "
            "they are columns",
        ),
        Mutant(
            "not sorted",
            _by_target,
            "the messages are right, but not sorted: they are listed target by target; by source "
            "first, then by target",
        ),
    ),
    not_tested="several shards of a replica, and samplers with fewer ranks than the trainer.",
)
