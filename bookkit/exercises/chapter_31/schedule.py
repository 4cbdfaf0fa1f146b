"""sampling.schedule.1: who sits in which slot."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Grid = list[list[int]]


def schedule(lengths: list[int], slots: int) -> Grid:
    """Refill a slot in the step after its row's last."""
    return _simulate(lengths, slots)


def _simulate(
    lengths: list[int],
    slots: int,
    *,
    waves: bool = False,
    extra: int = 0,
    late: bool = False,
    backwards: bool = False,
    one_a_step: bool = False,
) -> Grid:
    queue = list(range(len(lengths)))
    rows, left = [-1] * slots, [0] * slots
    blocked = [False] * slots
    grid: Grid = []
    while queue or any(row >= 0 for row in rows):
        if not waves or all(row < 0 for row in rows):
            order = range(slots - 1, -1, -1) if backwards else range(slots)
            for slot in order:
                if rows[slot] < 0 and queue and not blocked[slot]:
                    rows[slot] = queue.pop(0)
                    left[slot] = lengths[rows[slot]] + extra
                    if one_a_step:
                        break
        blocked = [False] * slots
        grid.append(list(rows))
        for slot in range(slots):
            if rows[slot] >= 0:
                left[slot] -= 1
                if left[slot] <= 0:
                    rows[slot] = -1
                    blocked[slot] = late
    return grid


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


def _waves(lengths: list[int], slots: int) -> Grid:
    return _simulate(lengths, slots, waves=True)


def _late(lengths: list[int], slots: int) -> Grid:
    return _simulate(lengths, slots, late=True)


def _one_too_long(lengths: list[int], slots: int) -> Grid:
    return _simulate(lengths, slots, extra=1)


def _one_too_short(lengths: list[int], slots: int) -> Grid:
    return _simulate([max(1, length - 1) for length in lengths], slots)


def _backwards(lengths: list[int], slots: int) -> Grid:
    return _simulate(lengths, slots, backwards=True)


def _one_a_step(lengths: list[int], slots: int) -> Grid:
    return _simulate(lengths, slots, one_a_step=True)


def _longest_first(lengths: list[int], slots: int) -> Grid:
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    grid = _simulate([lengths[row] for row in order], slots)
    return [[order[row] if row >= 0 else -1 for row in line] for line in grid]


def _last_rows_lost(lengths: list[int], slots: int) -> Grid:
    grid = _simulate(lengths, slots)
    starts = [min(t for t, line in enumerate(grid) if row in line) for row in range(len(lengths))]
    return grid[: max(starts, default=-1) + 1]


def _dealt(lengths: list[int], slots: int) -> Grid:
    columns: list[list[int]] = [[] for _ in range(slots)]
    for row, length in enumerate(lengths):
        columns[row % slots] += [row] * length
    steps = max((len(column) for column in columns), default=0)
    return [[c[t] if t < len(c) else -1 for c in columns] for t in range(steps)]


def _pushed_together(lengths: list[int], slots: int) -> Grid:
    running: list[list[int]] = []
    queue = list(enumerate(lengths))
    grid: Grid = []
    while queue or running:
        while queue and len(running) < slots:
            running.append(list(queue.pop(0)))
        grid.append([row for row, _ in running] + [-1] * (slots - len(running)))
        for item in running:
            item[1] -= 1
        running = [item for item in running if item[1] > 0]
    return grid


def _transposed(lengths: list[int], slots: int) -> Grid:
    grid = _simulate(lengths, slots)
    return [list(column) for column in zip(*grid, strict=True)] if grid else []


SCHEDULE = Exercise(
    id="sampling.schedule.1",
    title="Continuous batching",
    chapter=31,
    difficulty=3,
    minutes=25,
    goal=(
        "Which row sits in which slot at each decode step, when rows wait in their order and a "
        "slot takes the next one in the step after its row has ended; -1 is an idle slot."
    ),
    outputs=(Output("grid", "(steps, slots) as lists", "python"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=schedule,
    mutants=(
        Mutant(
            "waves",
            _waves,
            "slots are refilled only when all of them are empty: that is static batching, and the "
            "longest row of each wave holds the others up",
        ),
        Mutant(
            "one step late",
            _late,
            "a slot stays idle for a step before its next row: it can take it at once",
        ),
        Mutant(
            "one step too long",
            _one_too_long,
            "every row sits one step too long: a row of length n needs n steps",
        ),
        Mutant(
            "one step too short",
            _one_too_short,
            "every row leaves one step too soon: the step in which it draws its last token counts",
        ),
        Mutant(
            "highest slot first",
            _backwards,
            "free slots are filled from the highest number; begin with the lowest",
        ),
        Mutant(
            "one refill a step",
            _one_a_step,
            "only one slot is filled in each step: fill all that are free",
        ),
        Mutant(
            "longest first",
            _longest_first,
            "the longest rows go first: their lengths are not known beforehand, so rows are taken "
            "in their order",
        ),
        Mutant(
            "last rows lost",
            _last_rows_lost,
            "it stops when nobody waits any more: the rows that still run must end too",
        ),
        Mutant(
            "dealt beforehand",
            _dealt,
            "rows are dealt to the slots beforehand (row i to slot i mod slots): take the next "
            "row when a slot becomes free",
        ),
        Mutant(
            "pushed together",
            _pushed_together,
            "running rows move to lower slots when one ends: moving a row means copying its cache, "
            "so it keeps its slot",
        ),
        Mutant(
            "transposed",
            _transposed,
            "steps and slots are exchanged: `grid[t][s]` is the row in slot s at step t",
        ),
    ),
    not_tested="prefill, which also takes time, and rows whose end is not known beforehand.",
)
