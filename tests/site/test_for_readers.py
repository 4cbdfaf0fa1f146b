"""What readers of the site met: raw TeX in excerpts, endless films, elements without use."""

from __future__ import annotations

import base64
import re

import pytest
from javascript import THEME
from renderer.highlighting import code_html
from renderer.images import first_frame
from renderer.outputs import FILM, with_still
from renderer.search import PROGRESS_BAR, readable


def gif(frames: int) -> bytes:
    """A film of one pixel, with a palette, a loop for ever and a delay for each frame."""
    head = b"GIF89a" + bytes([1, 0, 1, 0, 0x80, 0, 0]) + bytes(6)
    loop = b"\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00"
    frame = b"\x21\xf9\x04\x04\x0a\x00\x00\x00" + b"\x2c" + bytes(8) + b"\x00\x02\x02\x44\x01\x00"
    return head + loop + frame * frames + b";"


@pytest.mark.parametrize("frames", [1, 2, 40])
def test_the_first_frame_is_a_film_of_one_frame(frames: int) -> None:
    assert first_frame(gif(frames)) == gif(1)


def test_a_film_in_an_output_stands_still_for_who_asks_for_less_motion() -> None:
    encoded, still = (base64.b64encode(gif(n)).decode() for n in (3, 1))
    image = f'<img src="data:image/gif;base64,{encoded}" alt="an arm">'
    shown = FILM.sub(lambda found: with_still(found[0], base64.b64decode(found["film"])), image)
    assert image in shown and shown.startswith("<picture>")
    assert f'srcset="data:image/gif;base64,{still}"' in shown
    assert 'media="(prefers-reduced-motion: reduce)"' in shown


@pytest.mark.parametrize("data", [b"", b"GIF89a", b"\x89PNG....", gif(2)[:30], gif(3)[:52]])
def test_what_is_no_whole_film_stays_or_is_cut_at_a_frame(data: bytes) -> None:
    assert first_frame(data) in (data, gif(1))


@pytest.mark.parametrize(
    ("tex", "words"),
    [
        (r"\hat A_t = \gamma\lambda\,(1 - \text{done}_t)", "A_t = gamma lambda (1 - done _t)"),
        (r"\mathbb{E}_{x \sim \pi}\left[ r \right]", "E x sim pi [ r ]"),
        (r"\begin{aligned} a &= b \\ c &= d \end{aligned}", "a = b c = d"),
    ],
)
def test_a_formula_can_be_read_in_an_excerpt(tex: str, words: str) -> None:
    assert readable(tex) == words


def test_progress_bars_are_no_excerpts() -> None:
    assert PROGRESS_BAR.search("keyword: 100%|██████████| 60/60 [00:12<00:00,  4.9it/s]")
    assert not PROGRESS_BAR.search("texts with 'great': 4.7% before, 99% after")


def test_code_spends_no_element_on_what_has_no_colour() -> None:
    html = code_html("def f(x):\n    return x + 1  # one", "python")
    assert 'class="k">def' in html and 'class="nf">f' in html and 'class="c1"># one' in html
    assert not re.search(r'class="(?:n|o|p|w)"', html)
    assert re.sub(r"<[^>]+>", "", html).strip() == "def f(x):\n    return x + 1  # one"


def test_links_within_a_page_jump_at_once() -> None:
    """With `content-visibility: auto` a smooth scroll ends where the target was before."""
    styles = "".join(path.read_text() for path in sorted((THEME / "styles").glob("*.css")))
    assert "content-visibility: auto" in styles and "scroll-behavior: smooth" not in styles
