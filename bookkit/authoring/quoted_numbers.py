"""Numbers in prose that look measured, and the numbers that a page computes or states in code."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bookkit.authoring.notebook_file import join
from bookkit.exercises.prediction_plot import PREDICTION_MIME

UNITS = (
    r"%|per ?cent\b|percentage points?\b|points?\b|×|times\b|[kMGT]i?B\b|bytes?\b|TFLOPS|[nµm]?s\b|"
    r"seconds?\b|minutes?\b|hours?\b|nats?\b|bits?\b|k?W\b|G?Hz\b|[cm]m\b|cents?\b|euros?\b|tokens?/s"
)
# A part of a name or of a version (H100, v5e, 2.6.0, Qwen2.5, 8-bit) is no quantity.
NUMBER = re.compile(
    r"(?<![\w.,/@#-])[−-]?(?P<value>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?![\w/]|[.,]\d|-\w)"
    rf"(?P<unit>[ \u00a0\u202f]?(?:{UNITS}))?"
)
# In outputs and code a number may touch a name or a unit: 4.1s, x1.2, 3e-5.
COMPUTED = re.compile(
    r"(?<![\d.])\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?<![\d.])\d+(?:\.\d+)?(?:e[+-]?\d+)?"
)
# What `plots.show_figure` leaves as text is the description that the author wrote.
FIGURE = re.compile(r"\[figure: .*?\](?=\s*$)", re.DOTALL)
SHARE = re.compile(r"%|cent|point")
MARKUP = re.compile(r"<style.*?</style>|<[^>]*>", re.DOTALL)


def measured_numbers(words: str) -> list[tuple[str, bool]]:
    """The numbers of a sentence that have decimals or a unit.

    Returns:
        Each as written, without the unit, and whether it is a share in per cent.
    """
    return [
        (found["value"], SHARE.search(found["unit"] or "") is not None)
        for found in NUMBER.finditer(words)
        if found["unit"] or "." in found["value"]
    ]


class Numbers:
    """The numbers that a page shows in its outputs or states in its code."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Find the numbers of some outputs and cells, given as plain text."""
        found = {word.replace(",", "") for text in texts for word in COMPUTED.findall(text)}
        found |= {word.partition("e")[0] for word in found}  # 7.5e9 is 7.5 billion
        self.values = sorted({float(word) for word in found})

    def hold(self, written: str, *, share: bool = False) -> bool:
        """Whether one of them is the written number, rounded as written.

        Args:
            written: the number as prose has it, such as 1,024 or 0.37.
            share: whether it is in per cent, so that 0.43 is 43 too.
        """
        plain = written.replace(",", "")
        half = 0.5 * 10.0 ** -len(plain.partition(".")[2])
        value = float(plain)
        return any(
            abs(number * scale - value) <= half * (1 + 1e-6)
            for number in self.values
            for scale in ((1, 100) if share else (1,))
        )


def shown_by_cells(notebook: dict[str, Any], sources: Sequence[str]) -> list[str]:
    """What each cell of a page shows in its executed notebook, as text; pictures are left out.

    A cell that was edited since is paired with the next stored cell that the page no longer has.

    Args:
        notebook: the stored notebook.
        sources: the sources of the page's code cells, in order.
    """
    stored: dict[str, list[str]] = {}
    edited: list[str] = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            source = join(cell["source"]).strip("\n")
            texts = [text for output in cell.get("outputs", []) for text in _texts(output)]
            (stored.setdefault(source, []) if source in sources else edited).append(
                "\n".join(texts)
            )
    return [waiting.pop(0) if (waiting := stored.get(source, edited)) else "" for source in sources]


def _texts(output: dict[str, Any]) -> Iterator[str]:
    yield join(output.get("text", ""))
    for mime, value in output.get("data", {}).items():
        if mime.startswith("text/"):
            yield MARKUP.sub(" ", FIGURE.sub("", join(value)))
        elif mime.endswith("json") and mime != PREDICTION_MIME:  # a curve proves no number
            yield json.dumps(value)
