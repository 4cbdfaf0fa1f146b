"""ddp.ports.1: two jobs on one machine must not meet at one port."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def pick_port(job: int, busy: list[int], first: int, last: int, low: int, high: int) -> int | None:
    """The job's own place in the range, then the next ones around it."""
    count = last - first + 1
    for offset in range(count):
        port = first + (job + offset) % count
        if port not in busy and not low <= port <= high:
            return port
    return None


def oracle(job: int, busy: list[int], first: int, last: int, low: int, high: int) -> int | None:
    """Turn the list of allowed ports until the job's own place is in front; take what is left."""
    ports = list(range(first, last + 1))
    place = job
    while place >= len(ports):
        place -= len(ports)
    turned = ports[place:] + ports[:place]
    left = [port for port in turned if port not in set(busy) and (port < low or port > high)]
    return left[0] if left else None


def cases(draw: Draw) -> Case:
    """Short ranges, so that something is in the way."""
    first = draw.integer(20, 30)
    last = first + draw.dimension()
    low = draw.integer(first - 4, last + 4)
    busy = sorted(set(draw.integers(first, last, draw.integer(0, draw.size)).tolist()))
    inputs = {
        "job": draw.integer(0, 40), "busy": busy, "first": first, "last": last,
        "low": low, "high": low + draw.integer(0, 3),
    }  # fmt: skip
    return Case(f"ports {first} to {last}", inputs)


def edges() -> tuple[Case, ...]:
    """Neighbouring jobs, both ends, a busy port, the system's range, none left, Linux's numbers."""

    def case(
        name: str, job: int, busy: list[int], first: int, last: int, low: int, high: int
    ) -> Case:
        inputs = {
            "job": job, "busy": busy, "first": first, "last": last, "low": low, "high": high
        }  # fmt: skip
        return Case(name, inputs)

    return (
        case("job 0", 0, [], 20, 24, 90, 99),
        case("job 1", 1, [], 20, 24, 90, 99),
        case("the last port", 4, [], 20, 24, 90, 99),
        case("once around", 5, [], 20, 24, 90, 99),
        case("a large number", 123_458, [], 20, 24, 90, 99),
        case("its own port is busy", 1, [21], 20, 24, 90, 99),
        case("busy up to the end", 3, [23, 24], 20, 24, 90, 99),
        case("before the system's range", 0, [20], 20, 24, 22, 23),
        case("the first of the system's range", 2, [], 20, 24, 22, 23),
        case("the last of the system's range", 3, [], 20, 24, 21, 23),
        case("amid the system's range", 2, [], 20, 24, 21, 23),
        case("a busy port before the system's range", 1, [21], 20, 24, 22, 23),
        case("none left", 1, [20, 21, 22], 20, 24, 23, 24),
        case("numbers of Linux", 41_234, [], 20_000, 29_999, 32_768, 60_999),
        case("its range meets ours", 9_000, [29_000], 20_000, 39_999, 29_001, 60_999),
    )


def _job_ignored(
    job: int, busy: list[int], first: int, last: int, low: int, high: int
) -> int | None:
    return pick_port(0, busy, first, last, low, high)


def _busy_ignored(
    job: int, busy: list[int], first: int, last: int, low: int, high: int
) -> int | None:
    return pick_port(job, [], first, last, low, high)


def _system_ignored(
    job: int, busy: list[int], first: int, last: int, low: int, high: int
) -> int | None:
    return pick_port(job, busy, first, last, 1, 0)


def _ends_allowed(
    job: int, busy: list[int], first: int, last: int, low: int, high: int
) -> int | None:
    return pick_port(job, busy, first, last, low + 1, high - 1)


def _never_around(
    job: int, busy: list[int], first: int, last: int, low: int, high: int
) -> int | None:
    start = first + job % (last - first + 1)
    free = (p for p in range(start, last + 1) if p not in busy and not low <= p <= high)
    return next(free, None)


def _one_short(job: int, busy: list[int], first: int, last: int, low: int, high: int) -> int | None:
    return pick_port(job % (last - first), busy, first, last - 1, low, high)


def _no_remainder(
    job: int, busy: list[int], first: int, last: int, low: int, high: int
) -> int | None:
    port = first + job
    while port in busy or low <= port <= high:
        port += 1
    return port


def _always_some(
    job: int, busy: list[int], first: int, last: int, low: int, high: int
) -> int | None:
    port = pick_port(job, busy, first, last, low, high)
    return first if port is None else port


def _dynamic(job: int, busy: list[int], first: int, last: int, low: int, high: int) -> int | None:
    return 49_152 + job % 16_384


def _asked_once(
    job: int, busy: list[int], first: int, last: int, low: int, high: int
) -> int | None:
    port = first + job % (last - first + 1)
    return None if port in busy or low <= port <= high else port


def _one_after(job: int, busy: list[int], first: int, last: int, low: int, high: int) -> int | None:
    return pick_port(job + 1, busy, first, last, low, high)


PORTS = Exercise(
    id="ddp.ports.1",
    title="A port for each job",
    chapter=32,
    difficulty=2,
    minutes=15,
    goal=(
        "The port of a job: its number's own place in the range from `first` to `last`, or the "
        "next one around that is neither busy nor in the system's range from `low` to `high`; "
        "None if there is none."
    ),
    outputs=(Output("port", "an int, or None", "python", may_be_none=True),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=pick_port,
    mutants=(
        Mutant(
            "job ignored",
            _job_ignored,
            "`job` is never used: two jobs that start at one moment both find the first port "
            "free, and both take it",
        ),
        Mutant(
            "busy ports taken",
            _busy_ignored,
            "`busy` is never used: the port of a job that runs already is handed out again",
        ),
        Mutant(
            "system's range taken",
            _system_ignored,
            "ports from `low` to `high` are handed out: the system may give them to any outgoing "
            "connection a moment later",
        ),
        Mutant(
            "ends of the system's range taken",
            _ends_allowed,
            "`low` and `high` themselves are handed out; they belong to the system's range",
        ),
        Mutant(
            "never around",
            _never_around,
            "the search ends at `last`: go on at `first`, until the job's own place comes again",
        ),
        Mutant(
            "last port never used",
            _one_short,
            "`last` is never handed out: there are last - first + 1 ports",
        ),
        Mutant(
            "beyond the range",
            _no_remainder,
            "the number of the job is added as it is, so that a large one leaves the range: take "
            "its remainder by the number of ports",
        ),
        Mutant(
            "always some port",
            _always_some,
            "where no port is left it hands out `first`, which is not free; return None",
        ),
        Mutant(
            "49152 + job mod 16384",
            _dynamic,
            "this is a formula that people copy; its ports lie in the range that the system hands "
            "out by itself, and it never looks at what is busy",
        ),
        Mutant(
            "asked once",
            _asked_once,
            "only the job's own place is tried; if it is taken, try the next ones",
        ),
        Mutant(
            "one after",
            _one_after,
            "the search begins one after the job's own place: job 0 begins at `first` itself",
        ),
    ),
    not_tested="the moment between asking and binding, in which somebody else may take the port.",
)
