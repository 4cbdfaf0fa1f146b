"""async.capacity.1: starts that keep the staleness within its bound."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


def oracle(
    staleness: int, version: int, batch: int, started: int, dropped: int, running: int, slots: int
) -> int:
    """Start one group after the other, as long as it is trained in time and finds a slot."""
    more = 0
    while running + more < slots:
        number = started - dropped + more  # its place among those that will be trained
        trained_at = 0
        while (trained_at + 1) * batch <= number and trained_at <= version + staleness:
            trained_at += 1
        if batch == 0 or trained_at - version > staleness:
            break
        more += 1
    return more


def cases(draw: Draw) -> Case:
    """Runs in which now the rule, now the slots decide; some came back from a checkpoint."""
    staleness, version, batch = draw.integer(0, 3), draw.integer(0, 5), draw.integer(1, 5)
    allowed = (staleness + version + 1) * batch
    dropped = draw.choice([0, draw.integer(1, 4)])
    started = max(dropped, allowed + dropped - draw.integer(-2, 3 + 2 * draw.size))
    slots = draw.integer(1, 3 + 2 * draw.size)
    running = draw.integer(0, min(slots, started - dropped)) if started > dropped else 0
    inputs = {
        "staleness": staleness, "version": version, "batch": batch, "started": started,
        "dropped": dropped, "running": running, "slots": slots,
    }  # fmt: skip
    return Case(f"η = {staleness}, version {version}, batch {batch}", inputs)


def edges() -> tuple[Case, ...]:
    """The first moment, a synchronous run, each limit alone, drops, a step back."""

    def case(
        name: str,
        staleness: int,
        version: int,
        batch: int,
        started: int,
        dropped: int = 0,
        running: int = 0,
        slots: int = 100,
    ) -> Case:
        inputs = {
            "staleness": staleness, "version": version, "batch": batch, "started": started,
            "dropped": dropped, "running": running, "slots": slots,
        }  # fmt: skip
        return Case(name, inputs)

    return (
        case("the first moment", 0, 0, 4, 0),
        case("synchronous, a batch is under way", 0, 0, 4, 4, running=4),
        case("synchronous, after an update", 0, 1, 4, 4),
        case("one version ahead", 1, 0, 4, 0),
        case("the hand example", 1, 3, 4, 19, dropped=2, running=5, slots=6),
        case("the rule decides", 1, 3, 4, 19, dropped=2),
        case("the slots decide", 2, 3, 4, 10, running=5, slots=8),
        case("all slots in use", 2, 3, 4, 10, running=8, slots=8),
        case("running groups were started", 1, 2, 3, 10, running=6, slots=20),
        case("many dropped", 1, 2, 3, 20, dropped=10, running=2),
        case("nothing is allowed", 1, 2, 3, 12),
        case("back to an earlier checkpoint", 1, 2, 3, 20, running=1),
        case("far along, far ahead", 4, 7, 2, 21, running=3, slots=50),
        case("batches of one", 3, 5, 1, 4),
    )


CHECK = Check(
    id="async.capacity.1",
    outputs=(Output("number", "an int", "python"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "one batch short",
            "(staleness + version + 1)",
            "(staleness + version)",
            "the 1 is missing: at staleness 0 and version 0 nothing could be started, and the run "
            "would wait for itself for ever",
        ),
        edit(
            "groups, not batches",
            "(staleness + version + 1) * batch",
            "(staleness + version + 1)",
            "`batch` is never used: an update takes a whole batch, so the rule counts in batches",
        ),
        edit(
            "one version of a run",
            "staleness + version + 1",
            "staleness + 1",
            "`version` is never used: starts are counted since the run began, so each update "
            "allows one batch more",
        ),
        edit(
            "no staleness",
            "staleness + version + 1",
            "version + 1",
            "`staleness` is never used: the generator would wait for the trainer at every batch",
        ),
        edit(
            "dropped groups hold their place",
            "(started - dropped)",
            "started",
            "dropped groups still count as started: they will never be trained, and each "
            "takes a place from the run for ever",
        ),
        edit(
            "dropped counted the other way",
            "(started - dropped)",
            "(started + dropped)",
            "dropped groups are added to the starts; they give their place back",
        ),
        edit(
            "running counted twice",
            "(started - dropped)",
            "(started - dropped + running)",
            "running groups count twice: they are among the started ones",
        ),
        edit(
            "finished ones alone",
            "(started - dropped)",
            "(started - dropped - running)",
            "running groups do not count: they will be trained as well, late, and then too stale",
        ),
        edit(
            "slots ignored",
            "min(allowed, slots - running)",
            "allowed",
            "`slots` is never used: more groups are started than the generator can hold",
        ),
        edit(
            "slots in use",
            "slots - running",
            "slots",
            "slots that are in use are handed out again: free are `slots - running`",
        ),
        edit(
            "negative",
            "max(0, min(allowed, slots - running))",
            "min(allowed, slots - running)",
            "the number can be negative, after a return to an earlier checkpoint: the floor is 0",
        ),
        edit(
            "rule or slots",
            "min(allowed, slots - running)",
            "slots - running if allowed > 0 else 0",
            "the rule is only asked whether *something* may be started, and then every free slot "
            "is filled: both limits bound the number",
        ),
        edit(
            "staleness times the batches",
            "(staleness + version + 1) * batch",
            "((staleness + 1) * (version + 1)) * batch",
            "staleness and version are multiplied: the allowance would grow faster than the "
            "trainer takes batches, and the lag with it",
        ),
    ),
    not_tested="that groups are trained in the order of their starts, without which the rule "
    "bounds nothing.",
    special=(
        ("staleness", 0.0),
        ("staleness", 1.0),
        ("version", 0.0),
        ("version", 1.0),
        ("batch", 0.0),
        ("batch", 1.0),
        ("started", 0.0),
        ("started", 1.0),
        ("dropped", 0.0),
        ("dropped", 1.0),
        ("running", 0.0),
        ("running", 1.0),
        ("slots", 0.0),
        ("slots", 1.0),
    ),
)
