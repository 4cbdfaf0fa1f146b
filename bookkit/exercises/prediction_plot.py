"""The plot of a prediction: what its axes show, how guess and truth are drawn on them.

The horizontal axis is a number (`x_range`) or a few named places (`places`); the vertical axis is
linear or logarithmic. The distance of two values is measured on the axis as it is drawn.
"""

import base64
import io
import math
import textwrap
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PREDICTION_MIME = "application/vnd.nbkit.prediction+json"

Place = float | str
Points = Sequence[tuple[float, float]]
GUESS, BOOK, TRUTH = "your guess", "the book's guess", "what happened"
_MARKS = {GUESS: ("o", "--", 0), BOOK: ("x", ":", 1), TRUTH: ("", "-", 2)}
_LABEL_WIDTH = 84  # characters that all labels of places share in a line


@dataclass(frozen=True)
class Plot:
    """What is predicted: the id, the words at the axes, and what the axes show.

    Attributes:
        id: ``"topic.name"``.
        x: what runs to the right, with its unit.
        y: what runs upwards, with its unit.
        x_range: least and greatest number of the horizontal axis.
        y_range: the same of the vertical axis; its height is the unit of the score.
        places: names along the horizontal axis, at 0, 1, 2, …; empty if it is a number.
        log_y: whether the vertical axis is logarithmic.
    """

    id: str
    x: str
    y: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    places: tuple[str, ...] = ()
    log_y: bool = False

    def at(self, place: Place) -> float:
        """Where a place lies on the horizontal axis.

        Raises:
            ValueError: the axis has named places and this is none of them.
        """
        if not self.places:
            return float(place)
        if place not in self.places:
            raise ValueError(f"{place!r} is no place of this plot: it has {', '.join(self.places)}")
        return float(self.places.index(str(place)))

    def name(self, x: float) -> str:
        """What stands at the horizontal axis there: a name, or the number."""
        return self.places[int(x)] if self.places else f"{x:g}"

    def distance(self, one: float, other: float) -> float:
        """How far apart two values are on the vertical axis; decades if it is logarithmic."""
        return abs(self._height_of(one) - self._height_of(other))

    @property
    def height(self) -> float:
        """The height of the vertical axis, in the unit of `distance`."""
        return self.distance(*self.y_range)

    def _height_of(self, value: float) -> float:
        return math.log10(value) if self.log_y else value

    def value_of(self, guess: Points, x: float) -> float:
        """The guess at a place: straight lines between its points, level outside of them."""
        after = bisect_right([point[0] for point in guess], x)
        if after == 0:
            return guess[0][1]
        if after == len(guess):
            return guess[-1][1]
        (a, low), (b, high) = guess[after - 1], guess[after]
        share = (x - a) / (b - a)
        if self.log_y:
            return float(low * (high / low) ** share)
        return low + (high - low) * share


def draw(
    plot: Plot,
    guess: Points,
    truth: Points = (),
    book: Points = (),
    *,
    offered: Sequence[float] = (),
) -> None:
    """Show the axes with what is known of guess, truth and the book's guess.

    The output holds a picture, and for the built page what its figure draws.

    Args:
        plot: the axes.
        guess: of the learner.
        truth: empty while it is asked for.
        book: the book's guess.
        offered: where the built page asks for a number.
    """
    import matplotlib.pyplot as plt

    from nbkit import plots

    shown = {TRUTH: truth, BOOK: book, GUESS: guess}
    with plots.style():
        figure, axes = plt.subplots(figsize=(6.4, 3.0 if plot.places else 2.8))
        axes.set(xlabel=plot.x, ylabel=plot.y)
        axes.set_xlim(*_limits(plot.x_range, [x for points in shown.values() for x, _ in points]))
        if plot.log_y:
            axes.set_yscale("log")
        axes.set_ylim(*_limits(plot.y_range, [y for points in shown.values() for _, y in points]))
        if plot.places:
            wide = max(8, _LABEL_WIDTH // len(plot.places))
            labels = ["\n".join(textwrap.wrap(name, wide)) for name in plot.places]
            axes.set_xticks(range(len(labels)), labels, fontsize=8)
        for label, points in shown.items():
            _line(axes, plot, points, label)
        if any(shown.values()):
            axes.legend(loc="best", fontsize=9)
        data = _data(plot, truth, book, offered)
        show(figure, _alt(plot, guess, truth, book), data)


def show(figure: "Figure", alt: str, data: dict[str, Any]) -> None:
    """Display a picture with its alternative text, and beside it what the built page draws."""
    import matplotlib.pyplot as plt
    from IPython.display import display

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    plt.close(figure)
    bundle = {
        "image/png": base64.b64encode(buffer.getvalue()).decode(),
        "text/plain": f"[figure: {alt}]",
        PREDICTION_MIME: data,
    }
    display(bundle, raw=True, metadata={"image/png": {"alt": alt}})


def _data(plot: Plot, truth: Points, book: Points, offered: Sequence[float]) -> dict[str, Any]:
    """What the figure of the built page needs; `truth` is there only when it is revealed."""
    data = {
        "id": plot.id,
        "x": _in_a_line(plot.x),
        "y": _in_a_line(plot.y),
        "xRange": _limits(plot.x_range, [x for x, _ in truth]),
        "yRange": plot.y_range,
        "places": plot.places,
        "logY": plot.log_y,
    }
    if not truth:
        return data | {"at": sorted(offered)}
    rounded = ([_rounded(x), _rounded(y)] for x, y in truth)
    return data | {"truth": list(rounded), "book": [list(point) for point in book]}


def _in_a_line(words: str) -> str:
    return " ".join(words.split())


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _limits(given: tuple[float, float], values: Sequence[float]) -> tuple[float, float]:
    """The range of an axis, and more if a value lies beyond it."""
    return min(given[0], *values, math.inf), max(given[1], *values, -math.inf)


def _line(axes: "Axes", plot: Plot, points: Points, label: str) -> None:
    if not points:
        return
    from nbkit import plots

    marker, line, colour = _MARKS[label]
    xs, ys = zip(*points, strict=True)
    if plot.places:  # no line joins one name with the next
        marker, line = marker or "_", ""
    size = 18 if marker == "_" else 7
    axes.plot(
        xs,
        ys,
        marker=marker,
        linestyle=line,
        markersize=size,
        markeredgewidth=2.5 if marker in "_x" else 1,
        color=plots.COLOURS[colour],
        label=label,
        clip_on=False,
    )


def _alt(plot: Plot, guess: Points, truth: Points, book: Points) -> str:
    named = {"a guess": guess, "the book's guess": book, "the truth": truth}
    parts = [f"{what} {_told(plot, points)}" for what, points in named.items() if points]
    said = " and ".join(parts) or "an empty plot for a guess"
    return f"{_in_a_line(plot.y)} against {_in_a_line(plot.x)}: {said}."


def _told(plot: Plot, points: Points) -> str:
    if plot.places:
        return ", ".join(f"{plot.name(x)} {value:.3g}" for x, value in points)
    return f"from {points[0][1]:.3g} to {points[-1][1]:.3g}"
