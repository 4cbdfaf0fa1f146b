"""Pictures with their size stated, so that text does not jump when they arrive."""

import re
import struct
from collections.abc import Sequence

from renderer.nodes import opening

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
SVG_BOX = re.compile(
    r'viewBox\s*=\s*["\']\s*[\d.eE+-]+[\s,]+[\d.eE+-]+[\s,]+([\d.]+)[\s,]+([\d.]+)'
)
SVG_LENGTH = r'\b{}\s*=\s*["\']([\d.]+)(px|pt)?["\']'
CSS_PIXELS_PER_POINT = 96 / 72


def picture(
    source: str,
    alternative: str,
    content: bytes,
    *,
    classes: Sequence[str] = (),
    width: str | None = None,
) -> str:
    """The image element: its size is stated, `width` (any CSS length) scales it."""
    size = pixel_size(content)
    return opening(
        "img",
        src=source,
        alt=alternative,
        loading="lazy",
        decoding="async",
        width=size[0] if size else None,
        height=size[1] if size else None,
        class_=" ".join(["picture", *classes]),
        style=f"width:{width}" if width else None,
    )


def pixel_size(content: bytes) -> tuple[int, int] | None:
    """Width and height in CSS pixels of a PNG, GIF or SVG; None if they are not stated."""
    if content.startswith(PNG_SIGNATURE):
        return struct.unpack(">II", content[16:24])
    if content[:4] == b"GIF8":
        return struct.unpack("<HH", content[6:10])
    if b"<svg" in content[:2000]:
        return _svg_size(content.decode("utf-8", errors="replace"))
    return None


def _svg_size(text: str) -> tuple[int, int] | None:
    start = text.index("<svg")
    tag = text[start : text.find(">", start)]
    sides = [re.search(SVG_LENGTH.format(side), tag) for side in ("width", "height")]
    if all(sides):
        width, height = (
            float(side[1]) * (CSS_PIXELS_PER_POINT if side[2] == "pt" else 1)
            for side in sides
            if side
        )
        return round(width), round(height)
    box = SVG_BOX.search(tag)
    return (round(float(box[1])), round(float(box[2]))) if box else None
