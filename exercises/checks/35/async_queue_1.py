"""async.queue.1: oldest first, nothing too stale, nothing lost."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

Group = tuple[int, int]
Served = tuple[list[int], list[int], list[Group], list[Group]]


def oracle(
    queue: list[Group], arrived: list[Group], version: int, batch: int, bound: int, room: int
) -> Served:
    """One group after the other: refuse, enter, then pick the oldest as often as a batch needs."""
    refused: list[int] = []
    inside: list[Group] = []
    outside: list[Group] = []
    for group in queue:
        if group[1] < version - bound:
            refused.append(group[0])
        else:
            inside.append(group)
    for group in arrived:
        if group[1] < version - bound:
            refused.append(group[0])
        elif outside or len(inside) >= room:
            outside.append(group)
        else:
            inside.append(group)
    taken: list[int] = []
    if len(inside) >= batch:
        while len(taken) < batch:
            place = 0
            for other in range(1, len(inside)):
                if inside[other][1] < inside[place][1]:
                    place = other
            taken.append(inside.pop(place)[0])
    return taken, refused, inside, outside


def cases(draw: Draw) -> Case:
    """Groups of a few versions in any order; numbers that do not rise."""
    version, bound = draw.integer(2, 6), draw.integer(0, 3)
    inside, outside = draw.integer(0, 1 + draw.size), draw.integer(0, 1 + draw.size)
    count = inside + outside
    numbers: list[int] = []
    while len(numbers) < count:
        number = draw.integer(0, 40)
        if number not in numbers:
            numbers.append(number)
    oldest = max(0, version - bound - 1)
    groups = [(number, draw.integer(oldest, version)) for number in numbers]
    inputs = {
        "queue": groups[:inside], "arrived": groups[inside:], "version": version,
        "batch": draw.integer(1, 3), "bound": bound, "room": max(inside, draw.integer(1, 6)),
    }  # fmt: skip
    return Case(f"{inside} queued, {outside} arrived", inputs)


def edges() -> tuple[Case, ...]:
    """Nothing there, ties, the bound itself, a full queue, too few, a place that becomes free."""

    def case(
        name: str,
        queue: list[Group],
        arrived: list[Group],
        version: int = 5,
        batch: int = 2,
        bound: int = 2,
        room: int = 4,
    ) -> Case:
        inputs = {
            "queue": queue, "arrived": arrived, "version": version,
            "batch": batch, "bound": bound, "room": room,
        }  # fmt: skip
        return Case(name, inputs)

    return (
        case("one queued", [(3, 5)], [], batch=1),
        case("nothing there", [], []),
        case("the hand example", [(7, 4), (8, 3), (9, 2)], [(10, 4), (11, 3)], room=3),
        case("the older one stands behind", [(1, 5), (2, 4)], [], batch=1),
        case("the older one has just arrived", [(1, 5), (2, 5)], [(3, 4)], batch=1),
        case("one version, numbers that fall", [(9, 4), (4, 4), (6, 4)], []),
        case("left in the order of arrival", [(1, 5), (2, 4), (3, 5), (4, 3), (5, 4)], [], room=6),
        case("as old as the bound", [(1, 3), (2, 5)], []),
        case("one behind the bound", [(1, 2), (2, 5), (3, 5)], []),
        case("all too stale", [(1, 1), (2, 2)], [(3, 0)]),
        case("arrived too stale", [(1, 5)], [(2, 1), (3, 4)]),
        case("bound 0", [(1, 4), (2, 5), (3, 5)], [], bound=0),
        case("fewer than a batch", [(1, 5)], [(2, 4)], batch=3),
        case("a batch to the last one", [(1, 5)], [(2, 4), (3, 5)], batch=3),
        case("full", [(1, 5), (2, 4)], [(3, 3), (4, 4)], batch=3, room=2),
        case("full, and a batch is in it", [(1, 5), (2, 4)], [(3, 3), (4, 4)], room=2),
        case("no room at all", [], [(1, 5), (2, 4)], batch=1, room=0),
        case("room for one", [(1, 5)], [(2, 4), (3, 3)], batch=1, room=2),
        case("a stale one makes room", [(1, 2), (2, 5)], [(3, 4), (4, 4)], batch=2, room=2),
    )


CHECK = Check(
    id="async.queue.1",
    outputs=(
        Output("handed out", "a list of numbers", "python"),
        Output("refused", "a list of numbers", "python"),
        Output("left", "a list of groups", "python"),
        Output("waiting", "a list of groups", "python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "newest first",
            "key=lambda group: group[1]",
            "key=lambda group: -group[1]",
            "the newest versions are handed out first: the old ones stay behind until they are "
            "too stale, and their sampling was for nothing",
        ),
        edit(
            "order of arrival",
            "sorted(held, key=lambda group: group[1])",
            "held",
            "groups are handed out in the order of arrival; a long one arrives late with an old "
            "version, and must not wait behind younger ones",
        ),
        edit(
            "ties by number",
            "key=lambda group: group[1]",
            "key=lambda group: (group[1], group[0])",
            "groups of one version are handed out by their number; the one that arrived first goes "
            "first",
        ),
        edit(
            "refused at the bound",
            "version - drawn_by > bound",
            "version - drawn_by >= bound",
            "a group exactly `bound` versions old is refused; it is still allowed",
        ),
        edit(
            "nothing refused",
            "version - drawn_by > bound",
            "False",
            "`bound` is never used: groups that are too stale are trained on",
        ),
        edit(
            "refused and not reported",
            "return [number for number, _ in oldest], refused, left",
            "return [number for number, _ in oldest], [], left",
            "the numbers of refused groups are not reported: nobody asks their prompts again",
        ),
        edits(
            "only the queue is looked at",
            ("for number, drawn_by in queue + arrived if", "for number, drawn_by in queue if"),
            message="what has just arrived is not asked for its age: a long completion may be too "
            "stale on arrival",
        ),
        edit(
            "half a batch",
            " if len(held) >= batch else []",
            "",
            "a batch that is not full is handed out: the trainer takes a step on fewer groups than "
            "the rule of starts counts with",
        ),
        edit(
            "no room asked for",
            "max(0, room - len(held))",
            "len(waiting)",
            "`room` is never used: without a limit the queue takes whatever arrives, and a "
            "slow trainer finds it full of old groups",
        ),
        edit(
            "dropped when full",
            "return [number for number, _ in oldest], refused, left, waiting",
            "return [number for number, _ in oldest], refused, left, []",
            "what finds no room is lost: it must wait outside, whole, until a place is free",
        ),
        edit(
            "a refused group holds its place",
            "room - len(held)",
            "room - len(queue)",
            "places are counted before the stale groups are refused: a refused group holds "
            "no place",
        ),
        edit(
            "entering after the batch has left",
            "    held, waiting = held + waiting[:entering], waiting[entering:]\n",
            "    if len(held) >= batch:\n"
            "        entering = max(0, room - len(held) + batch)\n"
            "    held, waiting = held + waiting[:entering], waiting[entering:]\n",
            "room is counted as if the batch had left already: groups enter first, then the "
            "batch is chosen among all that are inside",
        ),
        edit(
            "left in the order of age",
            "[group for group in held if group not in oldest]",
            "sorted(held, key=lambda group: group[1])[len(oldest) :]",
            "what is left was put in another order: keep the order of arrival, which breaks the "
            "ties of the next batch",
        ),
    ),
    not_tested="several processes that reach into the queue at once.",
    special=(
        ("version", 0.0),
        ("version", 1.0),
        ("batch", 0.0),
        ("batch", 1.0),
        ("bound", 0.0),
        ("bound", 1.0),
        ("room", 0.0),
        ("room", 1.0),
    ),
)
