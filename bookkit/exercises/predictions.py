"""Predictions: a guess as points on an empty plot, the truth drawn over it, a score that is kept.

The first guess counts. A later one, or one made when the truth has been shown in this session, is
drawn and not kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bookkit.exercises.prediction_plot import Place, Plot, Points, draw
from bookkit.exercises.progress import Guess, Progress, load, now, progress_file, update

Given = Sequence[tuple[Place, float | None]]


@dataclass(frozen=True)
class Asked:
    """A question that is open: its plot, the guess, and whether the truth was known by then."""

    plot: Plot
    guess: list[tuple[float, float]]
    is_late: bool


_asked: dict[str, Asked] = {}
_shown: set[str] = set()  # of which the truth has been drawn in this session


def predict(
    prediction_id: str,
    points: Given = (),
    *,
    x: str,
    y: str,
    y_range: tuple[float, float],
    x_range: tuple[float, float] | None = None,
    places: Sequence[str] = (),
    log_y: bool = False,
) -> None:
    """Draw a guess on an otherwise empty plot, and keep it until the truth is shown.

    Args:
        prediction_id: ``"topic.name"``, by which `reveal` finds it.
        points: of the guess, pairs (x, y); straight lines run between them. A y of None is a gap
            that the learner fills in; no y at all is no guess.
        x: what runs to the right, with its unit.
        y: what runs upwards, with its unit.
        y_range: least and greatest value of the vertical axis; its height is the unit of the score.
        x_range: the same of the horizontal axis, if it is a number.
        places: names along the horizontal axis, if it is none; the x of a point is one of them, and
            a guess has a point at each.
        log_y: whether the vertical axis is logarithmic; values are then above 0.

    Raises:
        ValueError: a point lies outside the plot, two have the same x, or the plot has neither a
            range nor places to the right.
    """
    if (x_range is None) == (not places):
        raise ValueError(
            f"prediction {prediction_id}: give `x_range` for numbers, or `places` for names"
        )
    wide = x_range or (-0.5, len(places) - 0.5)
    plot = Plot(prediction_id, x, y, wide, y_range, tuple(places), log_y)
    guess = _guess(plot, points, "your guess")
    offered = [plot.at(place) for place, _ in points]
    gaps = [name for at, name in enumerate(places) if at not in {point[0] for point in guess}]
    if guess and gaps:
        draw(plot, guess, offered=offered)
        print(f"Your guess has no number yet for: {', '.join(gaps)}. Fill in and run again.")
        guess = []
    else:
        draw(plot, guess, offered=offered)
        if not guess:
            print("No guess yet: write your numbers into the list above and run the cell again.")
    asked = Asked(plot, guess, is_late=prediction_id in _shown)
    _asked[prediction_id] = asked
    if guess and not asked.is_late:
        _note_guess(prediction_id, guess)


def reveal(
    prediction_id: str, xs: Sequence[Place], ys: Sequence[float], *, book: Given = ()
) -> None:
    """Draw the truth over the guess, say how far apart they are, and keep the score.

    Args:
        prediction_id: as in `predict`.
        xs: where the truth is known, rising; names, in their order, on a plot with places.
        ys: the truth there.
        book: the book's own guess, made by a rule that a comment beside it states. It is drawn and
            scored on the page, and not kept.

    Raises:
        ValueError: nothing was asked under this id, or the truth is no curve.
    """
    if prediction_id not in _asked:
        raise ValueError(
            f"nothing was predicted as {prediction_id!r}: run the cell with nbkit.predict first"
        )
    asked = _asked[prediction_id]
    plot, guess = asked.plot, asked.guess
    truth = [(plot.at(a), float(b)) for a, b in zip(xs, ys, strict=True)]
    if not truth or any(b[0] <= a[0] for a, b in pairwise(truth)):
        raise ValueError("the truth must be a curve of at least one point, its x rising")
    if plot.log_y and min(value for _, value in truth) <= 0:
        raise ValueError(f"the truth of {prediction_id} must be above 0: its axis is logarithmic")
    own = _guess(plot, book, "the book's guess")
    draw(plot, guess, truth, own)
    _shown.add(prediction_id)
    if own:
        print(f"The book's guess: {_verdict(plot, own, truth)[1]}")
    if not guess:
        print("You have not guessed; what is drawn is what happened.")
        return
    score, said = _verdict(plot, guess, truth)
    kept = _score_kept(prediction_id) if asked.is_late else _note_score(prediction_id, guess, score)
    print(f"Your guess: {said}")
    if asked.is_late and kept is None:
        print("The truth was already drawn when you made it, so it is not kept.")
    elif kept is not None and kept != score:
        print(f"Your first guess, {kept} of 100, is the one that is kept.")


def scores() -> dict[str, int]:
    """The scores of the predictions that were made, by id."""
    path = progress_file()
    kept = load(path).predictions if path is not None else {}
    return {name: guess.score for name, guess in kept.items() if guess.score is not None}


def score_of(plot: Plot, misses: Sequence[float]) -> int:
    """100 less the mean distance in hundredths of the plot's height; at least 0."""
    return max(0, round(100 * (1 - sum(misses) / len(misses) / plot.height)))


def _guess(plot: Plot, points: Given, whose: str) -> list[tuple[float, float]]:
    """The points of a guess in the order of the axis, without its gaps.

    Raises:
        ValueError: a point lies outside the plot, or two have the same x.
    """
    guess = sorted((plot.at(a), float(b)) for a, b in points if b is not None)
    for a, b in guess:
        if not (_within(a, plot.x_range) and _within(b, plot.y_range)):
            across = "" if plot.places else f"x goes from {_ends(plot.x_range)}, "
            raise ValueError(
                f"the point ({plot.name(a)}, {b:g}) of {whose} lies outside the plot: "
                f"{across}y from {_ends(plot.y_range)}"
            )
    if len({a for a, _ in guess}) < len(guess):
        raise ValueError(f"two points of {whose} have the same x: leave one of them out")
    return guess


def _verdict(plot: Plot, guess: Points, truth: Points) -> tuple[int, str]:
    """The score of a guess, and a sentence that says how far it is from the truth."""
    misses = [(plot.distance(plot.value_of(guess, a), b), a, b) for a, b in truth]
    score = score_of(plot, [miss for miss, _, _ in misses])
    worst, place, value = max(misses)
    mean = sum(miss for miss, _, _ in misses) / len(misses)
    apart = f"a factor of {10**mean:.3g}" if plot.log_y else f"{mean:.3g}"
    said = f"{score} of 100, on average {apart} apart."
    if worst:
        said += f" Furthest at {plot.name(place)}: {plot.value_of(guess, place):.3g} guessed, "
        said += f"{value:.3g} true."
    return score, said


def _within(value: float, limits: tuple[float, float]) -> bool:
    return limits[0] <= value <= limits[1]


def _ends(limits: tuple[float, float]) -> str:
    return f"{limits[0]:g} to {limits[1]:g}"


def _note_guess(prediction_id: str, guess: list[tuple[float, float]]) -> None:
    def note(progress: Progress) -> None:
        known = progress.predictions.get(prediction_id)
        if known is None or known.score is None:
            progress.predictions[prediction_id] = Guess(points=guess, made=now())

    update(note)


def _note_score(prediction_id: str, guess: list[tuple[float, float]], score: int) -> int | None:
    """Keep the score of a guess if it is the first; the score that is kept."""

    def note(progress: Progress) -> None:
        known = progress.predictions.get(prediction_id)
        if known is None:
            known = progress.predictions[prediction_id] = Guess(points=guess, made=now())
        if known.score is None:
            known.score = score

    kept = update(note)
    return kept.predictions[prediction_id].score if kept is not None else None


def _score_kept(prediction_id: str) -> int | None:
    path = progress_file()
    known = load(path).predictions.get(prediction_id) if path is not None else None
    return known.score if known is not None else None
