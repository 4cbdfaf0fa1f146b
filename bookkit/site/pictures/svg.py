"""A few shapes in SVG, in the colours of the theme, so that they follow light and dark."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape

Point = tuple[float, float]

WIDTH, HEIGHT = 240, 120
COLOURS = {
    "ink": "#41464e",
    "muted": "#8b877c",
    "rule": "#dfdcd3",
    "surface": "#eeece5",
    "build": "#0b6b55",
    "break": "#a93a15",
    "scale": "#4b3fa8",
}
VARIABLES = {"ink": "ink-soft", "muted": "rule-strong", "surface": "surface-strong"}


def colour(name: str) -> str:
    """A colour of the theme, with the light one where the theme is absent."""
    return "none" if name == "none" else f"var(--{VARIABLES.get(name, name)},{COLOURS[name]})"


def drawing(*shapes: str, width: float = WIDTH, height: float = HEIGHT) -> str:
    """A whole SVG file."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}">\n' + "\n".join(shapes) + "\n</svg>\n"
    )


def _style(stroke: str, fill: str, width: float = 1.5, dash: str = "", opacity: float = 1.0) -> str:
    parts = [f"fill:{colour(fill)}", f"stroke:{colour(stroke)}"]
    if stroke != "none":
        parts.append(f"stroke-width:{width:g};stroke-linecap:round;stroke-linejoin:round")
    if dash:
        parts.append(f"stroke-dasharray:{dash}")
    if opacity != 1.0:
        parts.append(f"opacity:{opacity:g}")
    return f'style="{";".join(parts)}"'


def line(points: Iterable[Point], stroke: str = "ink", width: float = 1.5, dash: str = "") -> str:
    """An open line through points."""
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path d="M{path}" {_style(stroke, "none", width, dash)}/>'


def polygon(points: Iterable[Point], fill: str, opacity: float = 1.0) -> str:
    """A filled area."""
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path d="M{path}Z" {_style("none", fill, opacity=opacity)}/>'


def box(
    x: float,
    y: float,
    width: float,
    height: float,
    fill: str = "none",
    stroke: str = "none",
    radius: float = 2,
    opacity: float = 1.0,
) -> str:
    """A rectangle from its upper left corner."""
    style = _style(stroke, fill, 1.3, opacity=opacity)
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'rx="{radius:g}" {style}/>'
    )


def dot(x: float, y: float, fill: str = "ink", radius: float = 3.5, stroke: str = "none") -> str:
    """A disc."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" {_style(stroke, fill)}/>'


def words(
    x: float,
    y: float,
    text: str,
    fill: str = "ink",
    size: float = 10,
    anchor: str = "middle",
    weight: int = 500,
) -> str:
    """Text; `y` is its baseline."""
    style = f"font:{weight} {size:g}px var(--sans,sans-serif);fill:{colour(fill)}"
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} style="{style}">{escape(text)}</text>'


def arrow(start: Point, end: Point, stroke: str = "ink", width: float = 1.5) -> str:
    """A straight line with a head at its end."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = max((dx * dx + dy * dy) ** 0.5, 1e-9)
    ux, uy = dx / length, dy / length
    head = 3.2 + width
    base = (end[0] - head * ux, end[1] - head * uy)
    half = head * 0.6
    wings = [
        end,
        (base[0] - half * uy, base[1] + half * ux),
        (base[0] + half * uy, base[1] - half * ux),
    ]
    return line([start, base], stroke, width) + polygon(wings, stroke)


def curve(
    function: Callable[[float], float],
    domain: tuple[float, float],
    place: Callable[[float, float], Point],
    count: int = 60,
) -> list[Point]:
    """Points of a function's graph; `place` turns (x, f(x)) into places on the page."""
    low, high = domain
    xs = [low + (high - low) * step / (count - 1) for step in range(count)]
    return [place(x, function(x)) for x in xs]


def frame(
    domain: tuple[float, float], codomain: tuple[float, float], margin: float = 14
) -> Callable[[float, float], Point]:
    """A function from coordinates to places, for a plot that fills the picture."""
    (x0, x1), (y0, y1) = domain, codomain

    def place(x: float, y: float) -> Point:
        return (
            margin + (x - x0) / (x1 - x0) * (WIDTH - 2 * margin),
            HEIGHT - margin - (y - y0) / (y1 - y0) * (HEIGHT - 2 * margin),
        )

    return place
