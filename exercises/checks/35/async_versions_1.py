"""async.versions.1: which weights drew which token."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

Chunk = tuple[int, int]


def oracle(
    begin: int, held: int, chunks: list[Chunk], published: list[int], pause: int
) -> tuple[list[int], int]:
    """The first chunk, then the rest as a completion of its own that begins where it ends."""
    if not chunks:
        return [], begin
    there = [version for version, moment in enumerate(published, 1) if moment <= begin]
    loads = bool(there) and there[-1] > held
    using = there[-1] if loads else held
    (tokens, milliseconds), rest = chunks[0], chunks[1:]
    first_end = begin + milliseconds + (pause if loads else 0)
    versions, end = oracle(first_end, using, rest, published, pause)
    return [using for _ in range(tokens)] + versions, end


def cases(draw: Draw) -> Case:
    """Chunks of unequal size; updates before, while and behind them."""
    begin = draw.integer(0, 60)
    chunks = [(draw.integer(1, 4), draw.integer(5, 40)) for _ in range(draw.dimension())]
    gaps = draw.integers(1, 50, draw.integer(0, 1 + draw.size)).tolist()
    published = [sum(gaps[: k + 1]) for k in range(len(gaps))]
    newest = sum(moment <= begin for moment in published)
    inputs = {
        "begin": begin, "held": draw.integer(0, newest), "chunks": chunks,
        "published": published, "pause": draw.integer(0, 30),
    }  # fmt: skip
    return Case(f"{len(chunks)} chunks, {len(published)} updates", inputs)


def edges() -> tuple[Case, ...]:
    """No chunk, no update, at the moment of a look, while a chunk runs, while it loads, several."""

    def case(
        name: str,
        chunks: list[Chunk],
        published: list[int],
        begin: int = 0,
        held: int = 0,
        pause: int = 25,
    ) -> Case:
        inputs = {
            "begin": begin, "held": held, "chunks": chunks, "published": published, "pause": pause
        }  # fmt: skip
        return Case(name, inputs)

    return (
        case("one chunk, no update", [(3, 30)], []),
        case("no chunk", [], [5], begin=10),
        case("the hand example", [(2, 30), (2, 30), (2, 30)], [10, 50]),
        case("published while the chunk runs", [(2, 30), (3, 20)], [29]),
        case("published at the look", [(2, 30), (3, 20)], [30]),
        case("published after the last look", [(2, 30), (3, 20)], [31]),
        case("published before it begins", [(2, 30)], [10], begin=20),
        case("held already", [(2, 30), (1, 10)], [10, 15], begin=20, held=2),
        case("three at once", [(1, 30), (2, 30)], [5, 10, 20]),
        case("published while it loads", [(1, 30), (1, 30), (2, 30)], [5, 40]),
        case("no pause", [(1, 30), (2, 30)], [5], pause=0),
        case("chunks of unequal size", [(1, 10), (4, 40), (2, 20)], [5, 60], pause=15),
        case("an old completion", [(1, 10), (1, 10)], [3, 6, 9, 215], begin=200, held=3),
    )


CHECK = Check(
    id="async.versions.1",
    outputs=(
        Output("versions", "a list, one for each token", "python"),
        Output("end", "a whole number of milliseconds", "python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "one version for all, that of the start",
            "    return versions, now",
            "    return versions[:1] * len(versions), now",
            "all tokens get the version of the first one: weights change between chunks, and the "
            "tokens behind are of a newer policy",
        ),
        edit(
            "one version for all, that of the end",
            "    return versions, now",
            "    return versions[-1:] * len(versions), now",
            "all tokens get the version of the last one, as if it had drawn the first, too: "
            "their importance weights would be those of another policy",
        ),
        edit(
            "a moment too late",
            "moment <= now",
            "moment < now",
            "a version that is published at the very moment of the look is there, and loaded",
        ),
        edit(
            "within the chunk",
            "moment <= now for",
            "moment <= now + milliseconds for",
            "weights change within a chunk: a chunk that runs is not interrupted, what "
            "is published meanwhile waits for the next look",
        ),
        edit(
            "one version after the other",
            "held = newest\n",
            "held += 1\n",
            "versions are loaded one after the other; only the newest is wanted",
        ),
        edit(
            "a pause for each version",
            "            held = newest\n            now += pause\n",
            "            now += pause * (newest - held)\n            held = newest\n",
            "there is a pause for every version that was published: the newest is loaded once",
        ),
        edit(
            "no pause",
            "now += pause",
            "pass",
            "`pause` is never used: loading takes time, in which further versions may come",
        ),
        edits(
            "always a pause",
            ("            now += pause\n", ""),
            (
                "        if newest > held:",
                "        now += pause\n        if newest > held:",
            ),
            message="there is a pause at every look, also where nothing new was published",
        ),
        edit(
            "looked again after loading",
            "            held = newest\n            now += pause\n",
            "            now += pause\n"
            "            held = sum(moment <= now for moment in published)\n",
            "a version that is published while another one is loaded is taken at once; it "
            "waits for the next look",
        ),
        edit(
            "never at the start",
            "if newest > held:",
            "if newest > held and versions:",
            "it does not look before the first chunk: the completion would begin with weights "
            "that are older than need be",
        ),
        edit(
            "numbered from 0",
            "sum(moment <= now for moment in published)",
            "sum(moment <= now for moment in published) - 1",
            "versions are counted from 0 for the first that is published; version 0 is the start "
            "of the run, and `published[0]` is version 1",
        ),
        edit(
            "a version for each chunk",
            "[held] * tokens",
            "[held]",
            "there is one version a chunk; each of its tokens needs one",
        ),
        edit(
            "only the last chunk's time",
            "now += milliseconds",
            "now = begin + milliseconds",
            "the clock does not go on from chunk to chunk: each begins where the one before ends",
        ),
    ),
    not_tested="what becomes of the cache: keys and values of older weights stay in it, or are "
    "computed again.",
    special=(
        ("begin", 0.0),
        ("begin", 1.0),
        ("held", 0.0),
        ("held", 1.0),
        ("pause", 0.0),
        ("pause", 1.0),
    ),
)
