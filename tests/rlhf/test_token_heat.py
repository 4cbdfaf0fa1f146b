"""Colours of tokens: readable, and never the only carrier of a meaning."""

import re

import pytest

from nbkit.text.token_heat import heat_colour, sample_table, token_heat

pytestmark = pytest.mark.chapter(21)


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb (WCAG 2.2)."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("value", [-9.0, -1.0, 0.0, 0.3, 1.0, 9.0])
def test_ink_is_readable_on_every_colour(value: float) -> None:
    ink, paper = luminance("#111111"), luminance(heat_colour(value, 1.0))
    assert (paper + 0.05) / (ink + 0.05) > 7


def test_colour_is_white_at_zero_and_differs_by_sign_and_size() -> None:
    assert heat_colour(0.0, 1.0) == "#ffffff"
    assert len({heat_colour(x, 1.0) for x in (-1.0, -0.5, 0.0, 0.5, 1.0)}) == 5
    assert heat_colour(1.0, 1.0) == heat_colour(7.0, 1.0)


def test_each_number_is_written_in_the_text_and_in_the_title() -> None:
    html = token_heat(["the", "<eos>"], [1.26, -0.04])
    assert 'title="the: +1.26 nats"' in html
    assert "+1.3" in re.sub("<[^>]*>", " ", html)
    assert "&lt;eos&gt;" in html
    assert "<eos>" not in html


def test_table_has_caption_heads_and_a_row_a_sample() -> None:
    row = {"prompt": "a < b ?", "tokens": ["yes"], "values": [0.5], "scores": {"gold": -1.0}}
    html = sample_table([row, row], caption="Two samples")
    assert html.count("<tr") == 3
    assert 'scope="col">gold<' in html
    assert "a &lt; b ?" in html
    assert "−1.00" in html
    assert 'role="region"' in html


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: token_heat(["a"], []), "as many"),
        (lambda: heat_colour(1.0, 0.0), "limit"),
        (lambda: sample_table([], caption="x"), "at least one"),
    ],
)
def test_what_does_not_fit_is_named(call, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=words):
        call()
