"""ddp.ports.1: two jobs on one machine must not meet at one port."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


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


CHECK = Check(
    id="ddp.ports.1",
    outputs=(Output("port", "an int, or None", "python", may_be_none=True),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "job ignored",
            "(job + offset)",
            "offset",
            "`job` is never used: two jobs that start at one moment both find the first "
            "port free, and both take it",
        ),
        edit(
            "busy ports taken",
            "port not in busy and ",
            "",
            "`busy` is never used: the port of a job that runs already is handed out again",
        ),
        edit(
            "system's range taken",
            " and not low <= port <= high",
            "",
            "ports from `low` to `high` are handed out: the system may give them to any "
            "outgoing connection a moment later",
        ),
        edit(
            "ends of the system's range taken",
            "low <= port <= high",
            "low < port < high",
            "`low` and `high` themselves are handed out; they belong to the system's range",
        ),
        edit(
            "never around",
            "port = first + (job + offset) % count",
            "port = first + (job + offset) % count\n"
            "        if port < first + job % count:\n"
            "            continue",
            "the search ends at `last`: go on at `first`, until the job's own place comes again",
        ),
        edit(
            "last port never used",
            "last - first + 1",
            "last - first",
            "`last` is never handed out: there are last - first + 1 ports",
        ),
        edit(
            "beyond the range",
            "    count =",
            "    port = first + job\n"
            "    while port in busy or low <= port <= high:\n"
            "        port += 1\n"
            "    return port\n"
            "    count =",
            "the number of the job is added as it is, so that a large one leaves the "
            "range: take its remainder by the number of ports",
        ),
        edit(
            "always some port",
            "return None",
            "return first",
            "where no port is left it hands out `first`, which is not free; return None",
        ),
        edit(
            "49152 + job mod 16384",
            "    count =",
            "    return 49_152 + job % 16_384\n    count =",
            "this is a formula that people copy; its ports lie in the range that the "
            "system hands out by itself, and it never looks at what is busy",
        ),
        edit(
            "asked once",
            "range(count)",
            "range(1)",
            "only the job's own place is tried; if it is taken, try the next ones",
        ),
        edit(
            "one after",
            "(job + offset)",
            "(job + 1 + offset)",
            "the search begins one after the job's own place: job 0 begins at `first` itself",
        ),
    ),
    not_tested="the moment between asking and binding, in which somebody else may take the port.",
)
