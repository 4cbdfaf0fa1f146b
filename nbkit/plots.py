"""One figure style for the book: colour-blind safe, small files, seeds as a band, alt text.

A figure is shown by ``show_figure(fig, alt="...")``, which closes it and attaches the alternative
text to the stored output, where the site's renderer finds it.
"""

import base64
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's palette, reordered so that neighbours differ in lightness; black comes last.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999")
MAX_BYTES = 150_000

STYLE: Any = {
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": "medium",
    "axes.titlelocation": "left",
    "grid.alpha": 0.25,
    "figure.figsize": (7.2, 3.2),
    "figure.dpi": 110,
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
}


def use_style() -> None:
    """Make the book's style the default of this process."""
    mpl.rcParams.update(STYLE)


@contextmanager
def style() -> Iterator[None]:
    """Use the book's style inside a ``with`` block only."""
    with mpl.rc_context(STYLE):
        yield


def smooth(values: Sequence[float], window: int) -> np.ndarray:
    """Return the trailing mean over at most ``window`` values, the same length as the input."""
    if window < 1:
        raise ValueError(f"window: need at least 1, got {window}")
    sums = np.cumsum(np.insert(np.asarray(values, dtype=float), 0, 0.0))
    ends = np.arange(1, len(sums))
    starts = np.maximum(0, ends - window)
    return (sums[ends] - sums[starts]) / (ends - starts)


def band(
    axes: Axes,
    runs: Sequence[Sequence[float]],
    *,
    label: str,
    x: Sequence[float] | None = None,
    window: int = 1,
    **line: Any,
) -> None:
    """Draw the mean of several seeds as a line and their range as a band.

    Args:
        axes: where to draw.
        runs: one curve a seed, all of one length.
        label: legend entry; the number of seeds is added to it.
        x: common horizontal positions, by default 0, 1, 2, ...
        window: trailing mean over this many points, first.
        line: passed to ``Axes.plot``.

    """
    lengths = {len(run) for run in runs}
    if len(lengths) != 1:
        raise ValueError(f"runs: curves of different lengths {sorted(lengths)}")
    data = np.array([smooth(run, window) for run in runs])
    positions = np.arange(data.shape[1]) if x is None else np.asarray(x)
    (drawn,) = axes.plot(positions, data.mean(0), label=f"{label} (n={len(runs)})", **line)
    if len(runs) > 1:
        colour = drawn.get_color()
        axes.fill_between(positions, data.min(0), data.max(0), color=colour, alpha=0.18, lw=0)


def show_figure(figure: Figure, alt: str) -> None:
    """Display ``figure`` as a PNG with alternative text, and close it.

    Raises:
        ValueError: an empty ``alt``, or a picture of over 150 kB.

    """
    from IPython.display import display

    if not alt.strip():
        raise ValueError("alt: say in one sentence what the figure shows")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    plt.close(figure)
    png = buffer.getvalue()
    if len(png) > MAX_BYTES:
        raise ValueError(f"figure: {len(png)} bytes, at most {MAX_BYTES}; simplify it")
    bundle = {"image/png": base64.b64encode(png).decode(), "text/plain": f"[figure: {alt}]"}
    display(bundle, raw=True, metadata={"image/png": {"alt": alt}})
