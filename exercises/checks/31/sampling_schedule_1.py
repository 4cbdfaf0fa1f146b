"""sampling.schedule.1: who sits in which slot."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

Grid = list[list[int]]


def oracle(lengths: list[int], slots: int) -> Grid:
    """Row by row: it starts where a slot is free first, the lowest number among equals."""
    free_at = [0] * slots
    seats = []
    for row, length in enumerate(lengths):
        start = min(free_at)
        slot = free_at.index(start)
        seats.append((row, slot, start, length))
        free_at[slot] = start + length
    grid = [[-1] * slots for _ in range(max(free_at, default=0))]
    for row, slot, start, length in seats:
        for t in range(start, start + length):
            grid[t][slot] = row
    return grid


def cases(draw: Draw) -> Case:
    """Some short rows and some long ones."""
    rows = draw.dimension()
    lengths = draw.integers(1, 5, rows).tolist()
    return Case(f"{rows} rows", {"lengths": lengths, "slots": draw.integer(1, 4)})


def edges() -> tuple[Case, ...]:
    """One row, more slots than rows, one slot, a long first row, a long last one, no row."""

    def case(name: str, lengths: list[int], slots: int) -> Case:
        return Case(name, {"lengths": lengths, "slots": slots})

    return (
        case("one row", [2], 1),
        case("more slots than rows", [1, 2], 3),
        case("one slot", [1, 2, 1], 1),
        case("the hand example", [1, 3, 2, 1], 2),
        case("a long row first", [5, 1, 1, 1, 1], 2),
        case("a long row last", [1, 1, 1, 4], 2),
        case("two end together", [2, 2, 1, 3], 2),
        case("three slots", [3, 1, 2, 2, 1, 1], 3),
        case("no row", [], 2),
    )


CHECK = Check(
    id="sampling.schedule.1",
    outputs=(Output("grid", "(steps, slots) as lists", "python"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "waves",
            "        for slot in range(slots):\n            if rows[slot] < 0 and",
            "        empty = max(rows, default=-1) < 0\n"
            "        for slot in range(slots):\n"
            "            if empty and",
            "slots are refilled only when all of them are empty: that is static batching, "
            "and the longest row of each wave holds the others up",
        ),
        edits(
            "one step late",
            ("rows[slot] < 0 and", "rows[slot] == -1 and"),
            ("list(rows)", "[max(row, -1) for row in rows]"),
            ("rows[slot] = -1", "rows[slot] = -2 if rows[slot] >= 0 else -1"),
            message="a slot stays idle for a step before its next row: it can take it at once",
        ),
        edit(
            "one step too long",
            "= lengths[rows[slot]]",
            "= lengths[rows[slot]] + 1",
            "every row sits one step too long: a row of length n needs n steps",
        ),
        edit(
            "one step too short",
            "= lengths[rows[slot]]",
            "= max(1, lengths[rows[slot]] - 1)",
            "every row leaves one step too soon: the step in which it draws its last token counts",
        ),
        edit(
            "highest slot first",
            "for slot in range(slots):\n            if rows",
            "for slot in reversed(range(slots)):\n            if rows",
            "free slots are filled from the highest number; begin with the lowest",
        ),
        edit(
            "one refill a step",
            "= lengths[rows[slot]]",
            "= lengths[rows[slot]]\n                break",
            "only one slot is filled in each step: fill all that are free",
        ),
        edit(
            "longest first",
            "range(len(lengths))",
            "sorted(range(len(lengths)), key=lambda row: -lengths[row])",
            "the longest rows go first: their lengths are not known beforehand, so rows "
            "are taken in their order",
        ),
        edit(
            "last rows lost",
            "queue or any(row >= 0 for row in rows)",
            "queue",
            "it stops when nobody waits any more: the rows that still run must end too",
        ),
        edit(
            "dealt beforehand",
            "    queue = list(range(len(lengths)))\n",
            "    columns = [[] for _ in range(slots)]\n"
            "    for row, length in enumerate(lengths):\n"
            "        columns[row % slots] += [row] * length\n"
            "    steps = max((len(column) for column in columns), default=0)\n"
            "    return [[c[t] if t < len(c) else -1 for c in columns] for t in "
            "range(steps)]\n"
            "    queue = list(range(len(lengths)))\n",
            "rows are dealt to the slots beforehand (row i to slot i mod slots): take the "
            "next row when a slot becomes free",
        ),
        edit(
            "pushed together",
            "                rows[slot] = -1\n",
            "                rows[slot] = -1\n"
            "        pairs = sorted(zip(rows, left), key=lambda pair: pair[0] < 0)\n"
            "        rows, left = [row for row, _ in pairs], [steps for _, steps in "
            "pairs]\n",
            "running rows move to lower slots when one ends: moving a row means copying "
            "its cache, so it keeps its slot",
        ),
        edit(
            "transposed",
            "return grid",
            "return [list(column) for column in zip(*grid)]",
            "steps and slots are exchanged: `grid[t][s]` is the row in slot s at step t",
        ),
    ),
    not_tested="prefill, which also takes time, and rows whose end is not known beforehand.",
)
