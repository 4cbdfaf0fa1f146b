"""Who worked when: spans of trainer and generator, their shares of a run, their overlap."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """Who did what: seconds of the monotonic clock, which all processes of a machine share."""

    who: str
    what: str
    begin: float
    end: float


def shares(spans: Sequence[Span]) -> dict[str, float]:
    """What part of the whole time each activity takes, by "who what".

    The whole goes from the trainer's first span to its last; what lies outside is cut off. What a
    process does not say counts as nothing: the generator's idle time is the rest up to 1.

    Args:
        spans: of a run; the trainer has some.

    Raises:
        ValueError: the trainer has none, or they take no time.

    """
    own = [span for span in spans if span.who == "trainer"]
    if not own:
        raise ValueError("spans: none of the trainer, so there is no whole to take parts of")
    first, last = min(span.begin for span in own), max(span.end for span in own)
    if last <= first:
        raise ValueError("spans: the trainer's take no time")
    found: dict[str, float] = {}
    for span in spans:
        inside = max(0.0, min(span.end, last) - max(span.begin, first))
        name = f"{span.who} {span.what}"
        found[name] = found.get(name, 0.0) + inside / (last - first)
    return found


def overlap(spans: Iterable[Span]) -> float:
    """Seconds in which the generator samples or scores while the trainer learns.

    Args:
        spans: of a run; those of one process do not overlap one another.

    """
    listed = list(spans)
    learning = [span for span in listed if (span.who, span.what) == ("trainer", "learn")]
    working = [span for span in listed if span.who == "generator"]
    return sum(
        max(0.0, min(one.end, other.end) - max(one.begin, other.begin))
        for one in learning
        for other in working
    )
