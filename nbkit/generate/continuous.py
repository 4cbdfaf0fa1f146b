"""Who sits in which slot: continuous batching, and the reading of prompts once a group.

A batch that waits for its longest row leaves slots idle. Here a slot that has ended takes the next
row while the others go on (Yu et al., "Orca", 2022). Rows of one group need the same prompt: a
slot that still holds it is a copy away, and so a prompt is read once.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from nbkit.generate.options import Sampling
from nbkit.generate.runner import Runner

IDLE = -1


@dataclass
class Seats:
    """The host's own book-keeping; it knows limits and counts without asking the device."""

    rows: list[int]
    prompts: list[int]
    left: list[int]
    used: list[int]

    @classmethod
    def empty(cls, slots: int) -> "Seats":
        """Nobody sits anywhere, and no slot holds a prompt."""
        return cls([IDLE] * slots, [IDLE] * slots, [0] * slots, [0] * slots)

    def live(self) -> list[int]:
        """Slots in which a row is running."""
        return [slot for slot, row in enumerate(self.rows) if row != IDLE]


@dataclass
class Work:
    """What is to be sampled: R rows over N prompts."""

    prompts: Sequence[Sequence[int]]
    prompt_of_row: Sequence[int]
    limits: Sequence[int]
    seeds: Tensor
    share: bool = True
    continuous: bool = True
    stats: dict[str, float] = field(default_factory=dict)


def run(runner: Runner, work: Work, sampling: Sampling) -> None:
    """Sample every row of the work; results are left in the runner's session."""
    slots = runner.session.slots
    options = runner.options
    seats = Seats.empty(slots)
    queue = deque(range(len(work.prompt_of_row)))
    batch_size = slots
    stats = dict.fromkeys(("prefill_tokens", "decode_steps", "slot_steps"), 0)
    least = max(1, int(slots * options.refill_share)) if work.continuous else slots
    runner.start(sampling)
    while True:
        free = seats.rows.count(IDLE)
        if queue and free >= min(least, len(queue)) and (work.continuous or free == slots):
            stats["prefill_tokens"] += _refill(runner, work, seats, queue)
        live = seats.live()
        if not live:
            if queue:
                least = 1
                continue
            break
        if not queue and options.shrink:
            smaller = runner.smaller_batch(len(live), batch_size)
            if smaller < batch_size:
                _shrink(runner, seats, smaller)
                batch_size, live = smaller, seats.live()
        steps = min(min(seats.left[slot] for slot in live), runner.check_every(sampling))
        used = [seats.used[slot] for slot in live]
        horizon = max(used) + steps
        runner.decode(batch_size, steps, horizon, sampling, aligned=min(used) == max(used))
        stats["decode_steps"] += steps
        stats["slot_steps"] += steps * batch_size
        for slot in live:
            seats.left[slot] -= steps
            seats.used[slot] += steps
            if not seats.left[slot]:
                seats.rows[slot] = IDLE
        if sampling.eos_ids:
            for slot in runner.ended(seats.rows):
                seats.rows[slot] = IDLE
    work.stats.update(stats, decode_seconds=runner.decode_seconds())


def _refill(runner: Runner, work: Work, seats: Seats, queue: deque[int]) -> int:
    """Seat waiting rows in free slots; return the number of prompt tokens that were read."""
    free = [slot for slot, row in enumerate(seats.rows) if row == IDLE]
    seated: list[tuple[int, int, int]] = []  # slot, row, prompt
    while free and queue:
        row = queue.popleft()
        prompt = work.prompt_of_row[row]
        same = [slot for slot in free if seats.prompts[slot] == prompt] if work.share else []
        slot = same[0] if same else free[0]
        free.remove(slot)
        seated.append((slot, row, prompt))
    leaving = {slot for slot, _, prompt in seated if seats.prompts[slot] != prompt}
    holders = {
        prompt: slot
        for slot, prompt in enumerate(seats.prompts)
        if prompt != IDLE and slot not in leaving
    }
    copies: list[tuple[int, int, int]] = []  # source, target, width
    reads: dict[int, list[int]] = {}
    tokens = 0
    for slot, row, prompt in seated:
        width = len(work.prompts[prompt]) - 1
        holder = holders.get(prompt, IDLE) if work.share else IDLE
        if width and work.share and seats.prompts[slot] == prompt:
            pass  # what it needs is already there
        elif width and holder != IDLE:
            copies.append((holder, slot, width))
        elif width:
            key = prompt if work.share else -1 - row
            tokens += width if key not in reads else 0
            reads.setdefault(key, []).append(slot)
        seats.rows[slot], seats.prompts[slot] = row, prompt
        seats.left[slot] = work.limits[row]
        seats.used[slot] = width
    runner.copy(copies)
    runner.prefill([(_prompt(work, key)[:-1], where) for key, where in reads.items()])
    slots = [slot for slot, _, _ in seated]
    runner.seat(
        slots,
        rows=[row for _, row, _ in seated],
        tokens=[work.prompts[prompt][-1] for _, _, prompt in seated],
        positions=[len(work.prompts[prompt]) - 1 for _, _, prompt in seated],
        limits=[work.limits[row] for _, row, _ in seated],
        seeds=work.seeds,
    )
    return tokens


def _prompt(work: Work, key: int) -> Sequence[int]:
    return work.prompts[key if key >= 0 else work.prompt_of_row[-1 - key]]


def _shrink(runner: Runner, seats: Seats, batch_size: int) -> None:
    """Move the rows beyond `batch_size` into idle slots below it."""
    sources = [slot for slot in seats.live() if slot >= batch_size]
    holes = [slot for slot in range(batch_size) if seats.rows[slot] == IDLE][: len(sources)]
    if not sources:
        return
    runner.move(sources, holes, max(seats.used[slot] for slot in sources))
    for source, hole in zip(sources, holes, strict=True):
        for column in (seats.rows, seats.prompts, seats.left, seats.used):
            column[hole] = column[source]
        seats.rows[source] = seats.prompts[source] = IDLE


@dataclass(frozen=True)
class Schedule:
    """Who sat where: ``grid[t][s]`` is the row in slot s at decode step t, or -1."""

    grid: tuple[tuple[int, ...], ...]

    @property
    def steps(self) -> int:
        """Decode steps that the work took."""
        return len(self.grid)

    @property
    def idle_share(self) -> float:
        """Share of slot-steps in which a slot held nobody."""
        cells = [row for step in self.grid for row in step]
        return cells.count(IDLE) / len(cells) if cells else 0.0


def schedule(lengths: Sequence[int], slots: int, *, continuous: bool = True) -> Schedule:
    """Simulate the slots for rows of known lengths, in their order.

    Args:
        lengths: decode steps that each row needs, at least 1.
        slots: rows at one time.
        continuous: refill a slot as soon as its row has ended; else wait for the whole wave.

    Raises:
        ValueError: no slot, or a row without a step.

    """
    if slots < 1:
        raise ValueError(f"slots must be at least 1; got {slots}")
    if any(length < 1 for length in lengths):
        raise ValueError("lengths: every row needs at least one step")
    queue = deque(range(len(lengths)))
    rows, left = [IDLE] * slots, [0] * slots
    grid = []
    while queue or any(row != IDLE for row in rows):
        if continuous or all(row == IDLE for row in rows):
            for slot in range(slots):
                if rows[slot] == IDLE and queue:
                    rows[slot] = queue.popleft()
                    left[slot] = lengths[rows[slot]]
        grid.append(tuple(rows))
        for slot in range(slots):
            if rows[slot] != IDLE:
                left[slot] -= 1
                if not left[slot]:
                    rows[slot] = IDLE
    return Schedule(tuple(grid))
