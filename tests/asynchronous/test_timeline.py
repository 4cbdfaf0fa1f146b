"""Shares and overlap of spans, by hand."""

import pytest

from nbkit.asynchronous.timeline import Span, overlap, shares

pytestmark = pytest.mark.chapter(35)
SPANS = [
    Span("generator", "sample", 0.0, 3.0),
    Span("generator", "score", 3.0, 4.0),
    Span("trainer", "wait", 1.0, 4.0),
    Span("trainer", "learn", 4.0, 9.0),
    Span("generator", "sample", 5.0, 7.0),
    Span("generator", "score", 7.0, 12.0),
]


def test_shares_of_the_time_of_the_trainer():
    assert shares(SPANS) == {
        "generator sample": (2 + 2) / 8,
        "generator score": (1 + 2) / 8,
        "trainer wait": 3 / 8,
        "trainer learn": 5 / 8,
    }


def test_overlap_is_what_both_do_at_once():
    assert overlap(SPANS) == 2 + 2
    assert overlap(SPANS[:4]) == 0


def test_without_the_trainer_there_is_no_whole():
    with pytest.raises(ValueError, match="none of the trainer"):
        shares(SPANS[:2])
    with pytest.raises(ValueError, match="take no time"):
        shares([Span("trainer", "wait", 1.0, 1.0)])
