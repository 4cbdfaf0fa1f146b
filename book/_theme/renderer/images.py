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
EXTENSION, IMAGE, TRAILER = 0x21, 0x2C, b";"
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


def first_frame(film: bytes) -> bytes:
    """The first picture of a GIF as a GIF of its own, for readers who ask for less motion.

    A file that does not follow the format is returned as it is.
    """
    if film[:4] != b"GIF8" or len(film) < 14:
        return film
    place = 13 + _palette_bytes(film[10])
    try:
        while film[place] == EXTENSION:
            place = _behind_blocks(film, place + 2)
        if film[place] != IMAGE:
            return film
        place = _behind_blocks(film, place + 10 + _palette_bytes(film[place + 9]) + 1)
    except IndexError:
        return film
    return film[:place] + TRAILER


def _palette_bytes(flags: int) -> int:
    return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0


def _behind_blocks(film: bytes, place: int) -> int:
    """The place behind a row of data blocks: each says its length, the last one's is 0."""
    while film[place]:
        place += film[place] + 1
    return place + 1
