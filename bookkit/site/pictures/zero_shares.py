"""Who holds what under each stage of ZeRO: four ranks, in bytes a parameter (chapter 34)."""

from __future__ import annotations

from bookkit.site.pictures.svg import box, drawing, words
from nbkit.memory import MIXED, Bytes, zero_bytes
from nbkit.memory.zero import STAGES, zero_cuts

FIGURE_WIDTH = 360.0
SIZE = 11.5
RANKS = 4
LEFT, COLUMN, BAR = 8.0, 87.5, 81.0  # a bar as wide as the whole model
BYTE, GAP = 3.0, 2.0  # height of one byte; between bars
TONES = {"weights": "build", "gradients": "break", "optimiser": "scale"}
WHOLE = {
    "weight_bytes": MIXED.weights,
    "gradient_bytes": MIXED.gradients,
    "optimiser_bytes": MIXED.master + MIXED.moments,
}


def held(stage: int) -> Bytes:
    """Bytes a parameter that one of the ranks holds, mixed precision and Adam."""
    return zero_bytes(1, RANKS, stage, **WHOLE)


def zero_shares() -> str:
    """A row for each stage, a column for each rank; an area is the memory that it stands for."""
    everything = held(0)
    height = sum(BYTE * getattr(everything, kind) + GAP for kind in TONES)
    y = 14.0
    shapes = [
        words(LEFT + COLUMN * rank + BAR / 2, y, f"rank {rank}", size=SIZE) for rank in range(RANKS)
    ]
    for stage in STAGES:
        y += 25
        name = f"ZeRO {stage}" if stage else "DDP"
        shapes.append(words(LEFT, y, name, size=12.5, anchor="start", weight=650))
        end = LEFT + COLUMN * (RANKS - 1) + BAR
        shapes.append(words(end, y, _sum(stage), size=SIZE, anchor="end"))
        for rank in range(RANKS):
            shapes += _bars(stage, rank, y + 7)
        y += 7 + height
    y += 20
    x = LEFT
    for (kind, tone), label, step in zip(
        TONES.items(), ("parameters", "gradients", "optimiser state"), (96, 88, 0), strict=True
    ):
        shapes.append(box(x, y - 9, 10, 10, tone, radius=1))
        size = f"{getattr(everything, kind):g} B"
        shapes.append(words(x + 15, y, f"{label} {size}", size=SIZE, anchor="start"))
        x += step + 17
    return drawing(*shapes, width=FIGURE_WIDTH, height=y + 8)


def _sum(stage: int) -> str:
    """The bytes of one rank as a sum, for the line of a stage."""
    one = held(stage)
    parts = " + ".join(f"{getattr(one, kind):g}" for kind in TONES)
    return f"{parts} = {one.total:g} bytes a parameter"


def _bars(stage: int, rank: int, y: float) -> list[str]:
    """What one rank holds of the three, each in the outline of the whole."""
    everything, cuts = held(0), zero_cuts(RANKS, stage)
    x, shapes = LEFT + COLUMN * rank, []
    for kind, tone in TONES.items():
        height, pieces = BYTE * getattr(everything, kind), getattr(cuts, kind)
        width = BAR / pieces
        first = x + width * (rank if pieces > 1 else 0)
        shapes.append(box(x, y, BAR, height, "surface", radius=0))
        shapes.append(box(first, y, width, height, tone, radius=0))
        y += height + GAP
    return shapes
