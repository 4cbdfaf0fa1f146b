"""The search of the site: what it finds, in which order, what it marks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from javascript import THEME, run_javascript

ENGINE = THEME / "scripts" / "search_engine.js"
INDEX = {
    "pages": [
        ["REINFORCE", "notebooks/reinforce/index.html", "Policy gradients"],
        ["PPO", "notebooks/ppo/index.html", "Policy gradients"],
    ],
    "sections": [
        [0, "", "", "The score function estimator of Williams."],
        [0, "The baseline", "baseline", "A baseline adds no bias. The variance falls."],
        [0, "Variance", "variance", "Measured over seeds: reward-to-go, baseline, both."],
        [1, "", "", "Clipping keeps the policy near the data. Entropy bonus. Élan vital."],
        [1, "The variance of the advantage", "adv", "Generalised advantage estimation; KL."],
    ],
}


def search(query: str, limit: int = 20) -> list[dict[str, Any]]:
    return run_javascript(
        ENGINE,
        f"const sections = m.prepare({json.dumps(INDEX)});"
        f"return m.search(sections, {json.dumps(query)}, {limit}).map(r => r.section);",
    )


def places(query: str) -> list[tuple[str, str]]:
    return [(found["title"], found["anchor"]) for found in search(query)]


def test_heading_ranks_above_text() -> None:
    assert places("baseline") == [("REINFORCE", "baseline"), ("REINFORCE", "variance")]


def test_whole_short_heading_and_text_rank_by_hits() -> None:
    found = places("variance")
    assert set(found[:2]) == {("REINFORCE", "variance"), ("PPO", "adv")}
    assert found[2] == ("REINFORCE", "baseline")


def test_title_finds_the_top_of_a_page() -> None:
    assert places("ppo")[0] == ("PPO", "")


def test_sections_with_every_word_come_first() -> None:
    found = places("variance baseline bias")
    assert found[0] == ("REINFORCE", "baseline")
    assert ("REINFORCE", "variance") in found[1:]


def test_half_of_the_words_must_be_there() -> None:
    assert places("bias xyzzy") == [("REINFORCE", "baseline")]
    assert places("bias xyzzy plugh") == []


def test_beginning_of_a_word_is_enough_but_not_its_end() -> None:
    assert places("clip") == [("PPO", "")]
    assert places("ipping") == []


def test_accents_and_case_do_not_matter() -> None:
    assert places("ELAN") == places("élan") == [("PPO", "")]


def test_hyphenated_words() -> None:
    assert places("reward-to-go") == [("REINFORCE", "variance")]


@pytest.mark.parametrize("query", ["", "   ", "?!"])
def test_nothing_asked_nothing_found(query: str) -> None:
    assert places(query) == []


def test_limit() -> None:
    assert len(search("the", 1)) == 1


def test_snippet_is_around_the_hit() -> None:
    long = "word " * 200 + "needle here " + "tail " * 100
    index = {"pages": [["T", "p", ""]], "sections": [[0, "", "", long]]}
    section = run_javascript(
        ENGINE, f"return m.snippet(m.prepare({json.dumps(index)})[0], 'needle');"
    )
    assert "needle here" in section
    assert section.startswith("… ")
    assert section.endswith(" …")
    assert len(section) < 200


def test_highlight_keeps_the_text() -> None:
    pieces = run_javascript(ENGINE, "return m.highlight('Élan and elan, relan', 'elan');")
    assert "".join(piece for piece, _ in pieces) == "Élan and elan, relan"
    assert [piece for piece, is_hit in pieces if is_hit] == ["Élan", "elan"]
