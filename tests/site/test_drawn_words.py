"""The words of the figures in a real browser: large enough, apart, and inside their boxes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from renderer.blocks import inline_drawing
from renderer.bundles import write_assets

from bookkit.site.pictures import gallery

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FIGURES = ("reward_spectrum", "rlhf_data_flow", "token_tree", "zero_shares")
COLUMNS = {375: 330, 1280: 704}  # width of the window, and of its column of text, in pixels
SMALLEST = 10.0  # pixels of a font

FAULTS = """() => {
  const svg = document.querySelector('svg');
  const frame = svg.getBoundingClientRect();
  const scale = frame.width / svg.viewBox.baseVal.width;
  const inside = (a, b) => a.left >= b.left && a.right <= b.right;
  const apart = (a, b) => a.right <= b.left || b.right <= a.left
    || a.bottom <= b.top || b.bottom <= a.top;
  const words = [...svg.querySelectorAll('text')].map((node) => {
    const size = parseFloat(getComputedStyle(node).fontSize) * scale;
    const {left, right, top, bottom} = node.getBoundingClientRect();
    const lead = (bottom - top - size) / 2;  // the letters, without the space between lines
    return {name: node.textContent, size, left, right, top: top + lead, bottom: bottom - lead};
  });
  const boxes = [...svg.querySelectorAll('rect')].map((node) => node.getBoundingClientRect());
  const found = [];
  words.forEach((word, number) => {
    if (word.size < SMALLEST) found.push(`${word.name}: ${word.size} px`);
    if (!inside(word, frame)) found.push(`${word.name}: outside the drawing`);
    for (const other of words.slice(number + 1)) {
      if (!apart(word, other)) found.push(`${word.name}: over ${other.name}`);
    }
    for (const box of boxes) {
      if (!apart(word, box) && !inside(word, box)) found.push(`${word.name}: across a box`);
    }
  });
  return found;
}"""


def faults(open_page: Callable[..., Any], folder: Path, svg: str, window: int) -> list[str]:
    """What is wrong with the words of a drawing in a window of this width, in pixels."""
    write_assets(folder)
    page = folder / "page.html"
    figure = f'<figure class="drawing">{inline_drawing(svg, "A drawing")}</figure>'
    page.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>A drawing</title>'
        '<link rel="stylesheet" href="style.css">'
        f'<div style="width: {COLUMNS[window]}px">{figure}</div></html>',
        encoding="utf-8",
    )
    shown = open_page(page.as_uri(), viewport={"width": window, "height": 900})
    shown.evaluate("document.fonts.ready")
    return shown.evaluate(FAULTS.replace("SMALLEST", f"{SMALLEST:g}"))


@pytest.mark.parametrize("window", COLUMNS)
@pytest.mark.parametrize("name", FIGURES)
def test_words_of_figures_can_be_read(
    open_page: Callable[..., Any], tmp_path: Path, name: str, window: int
) -> None:
    assert faults(open_page, tmp_path, gallery.PICTURES[name](), window) == []


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        (("reward model</text>", "the learned reward model</text>"), "across a box"),
        (('y="200.0"', 'y="190.0"'), "over"),
        (("500 11.5px", "500 8px"), "px"),
        (("prompts (B)", "prompts (B), " * 20), "outside the drawing"),
    ],
)
def test_words_that_cannot_be_read_are_found(
    open_page: Callable[..., Any], tmp_path: Path, edit: tuple[str, str], fault: str
) -> None:
    svg = gallery.PICTURES["rlhf_data_flow"]()
    assert edit[0] in svg
    found = faults(open_page, tmp_path, svg.replace(*edit), 375)
    assert any(fault in one for one in found), found
