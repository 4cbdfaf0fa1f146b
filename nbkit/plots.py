"""One figure style for the book: colour-blind safe, small files, seeds as a band, alt text.

A figure is shown by ``show_figure(fig, alt="...")``, which closes it and attaches the alternative
text to the stored output, where the site's renderer finds it.
"""

import base64
import html
import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

# Okabe and Ito's palette, reordered so that neighbours differ in lightness; black comes last.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999")
MAX_BYTES = 150_000
FILM_BYTES = 500_000
FILM_WIDTH = 480  # pixels, at least
BAR_COLOUR = (38, 38, 38)  # of the bar that holds a text, under light and dark pages alike
GAP = 4  # pixels between films side by side

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


@dataclass(frozen=True)
class Film:
    """A short film that a page can hold, with a still picture for those who ask for less motion.

    Attributes:
        webp: the film.
        poster: its last frame, as WebP.
        caption: what is seen, in a sentence.
        alt: the same for those who cannot see it.
        size: width and height in pixels.
        seconds: that it plays, all its turns together; infinite for one that never ends.

    """

    webp: bytes
    poster: bytes
    caption: str
    alt: str
    size: tuple[int, int]
    seconds: float

    def _repr_html_(self) -> str:
        still, moving = (base64.b64encode(part).decode() for part in (self.poster, self.webp))
        width, height = self.size
        return (
            f'<figure class="film" data-seconds="{self.seconds:.1f}" style="margin:0"><picture>'
            '<source media="(prefers-reduced-motion: reduce)" '
            f'srcset="data:image/webp;base64,{still}">'
            f'<img src="data:image/webp;base64,{moving}" alt="{html.escape(self.alt)}" '
            f'width="{width}" height="{height}" style="max-width:100%;height:auto"></picture>'
            f"<figcaption>{html.escape(self.caption)}</figcaption></figure>"
        )


def film(
    frames: Sequence[NDArray[np.uint8]],
    *,
    caption: str,
    alt: str,
    words: Sequence[str] = (),
    fps: float = 15.0,
    plays: int = 2,
    max_bytes: int = FILM_BYTES,
) -> Film:
    """Encode frames as a short film, as small as it has to be.

    Args:
        frames: (H, W, 3) uint8, all of one shape; widened to `FILM_WIDTH` where they are narrower.
        caption: what is seen.
        alt: the same for those who cannot see it.
        words: written into a bar under each frame, one text a frame; none: no bar.
        fps: frames a second.
        plays: how often it plays; 0: for ever.
        max_bytes: of the film; quality is lowered, then frames are left out.

    Raises:
        ValueError: no frame, an empty text, or a film that stays over `max_bytes`.

    """
    if not frames:
        raise ValueError("frames: a film needs at least one frame")
    if not caption.strip() or not alt.strip():
        raise ValueError("caption and alt: say in one sentence each what the film shows")
    if words and len(words) != len(frames):
        raise ValueError(f"words: {len(words)} texts for {len(frames)} frames; give one a frame")
    texts = zip(frames, words or [""] * len(frames), strict=True)
    pictures = [_frame(frame, text) for frame, text in texts]
    for every in (1, 2, 3, 4):
        kept = pictures[::every]
        if kept[-1] is not pictures[-1]:
            kept.append(pictures[-1])
        for quality in (70, 50, 30):
            buffer = io.BytesIO()
            kept[0].save(
                buffer,
                "WEBP",
                save_all=True,
                append_images=kept[1:],
                duration=round(1000 * every / fps),
                loop=plays,
                quality=quality,
                method=4,
            )
            if buffer.tell() <= max_bytes:
                still = io.BytesIO()
                pictures[-1].save(still, "WEBP", quality=70)
                seconds = len(kept) * round(1000 * every / fps) / 1000 * (plays or math.inf)
                parts = buffer.getvalue(), still.getvalue()
                return Film(*parts, caption, alt, pictures[0].size, seconds)
    raise ValueError(f"film: over {max_bytes} bytes; show fewer frames")


def beside(
    films: Sequence[Sequence[NDArray[np.uint8]]],
    words: Sequence[Sequence[str]],
    *,
    columns: int = 2,
    width: int = 320,
    hold: int = 0,
) -> list[NDArray[np.uint8]]:
    """Join films into one, in rows, each with its own text; one that ends stands still.

    Args:
        films: frames (H, W, 3) uint8 of each.
        words: of each film a text a frame.
        columns: films in a row.
        width: of one film in the joined one, in pixels.
        hold: frames for which all stand still at the end.

    Returns:
        Frames (H', W', 3) for `film`.

    Raises:
        ValueError: no film, a film without frames, or texts that are not one a frame.

    """
    if not films or not all(len(frames) for frames in films):
        raise ValueError("films: give at least one film, and at least one frame of each")
    if [len(frames) for frames in films] != [len(texts) for texts in words]:
        raise ValueError("words: give each film a text a frame")
    length = max(len(frames) for frames in films) + hold
    return [_joined(films, words, at, columns, width) for at in range(length)]


def _joined(
    films: Sequence[Sequence[NDArray[np.uint8]]],
    words: Sequence[Sequence[str]],
    at: int,
    columns: int,
    width: int,
) -> NDArray[np.uint8]:
    """The frames of all films at one place, in rows."""
    from PIL import Image

    panels = [
        _frame(frames[min(at, len(frames) - 1)], texts[min(at, len(texts) - 1)], width)
        for frames, texts in zip(films, words, strict=True)
    ]
    rows = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    heights = [max(panel.height for panel in row) for row in rows]
    whole = Image.new("RGB", (columns * width + (columns - 1) * GAP, sum(heights)), BAR_COLOUR)
    for number, row in enumerate(rows):
        for column, panel in enumerate(row):
            whole.paste(panel, (column * (width + GAP), sum(heights[:number])))
    return np.asarray(whole)


def _frame(frame: NDArray[np.uint8], text: str, width: int = 0) -> Any:
    """A picture with a text in a dark bar under it.

    `width` scales it to so many pixels; 0 widens it to `FILM_WIDTH` where it is narrower.
    """
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.fromarray(frame)
    wanted = width or max(picture.width, FILM_WIDTH)
    if picture.width != wanted:
        height = round(picture.height * wanted / picture.width)
        picture = picture.resize((wanted, height), Image.Resampling.LANCZOS)
    if not text:
        return picture
    bar = 34
    whole = Image.new("RGB", (picture.width, picture.height + bar), BAR_COLOUR)
    whole.paste(picture, (0, 0))
    font = ImageFont.load_default(size=18 if not width else 21)
    draw = ImageDraw.Draw(whole)
    draw.text((12, picture.height + 5), text, fill=(245, 245, 245), font=font)
    return whole
