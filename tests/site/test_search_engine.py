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
    assert found[0] == ("REINFORCE", "variance")
    assert found[1] == ("REINFORCE", "baseline")  # of the same chapter, below it
    assert found[2] == ("PPO", "adv")


def test_title_finds_the_top_of_a_page() -> None:
    assert places("ppo")[0] == ("PPO", "")


def test_the_words_together_in_a_heading_beat_one_of_them_in_a_title() -> None:
    index = {
        "pages": [
            ["Data parallel", "notebooks/data-parallel/index.html", "Systems"],
            ["Sharding", "notebooks/sharding/index.html", "Systems"],
        ],
        "sections": [
            [0, "", "", "Parallel processes, each with a tensor; parallel again. " * 5],
            [0, "Data parallel by hand", "hand", "A tensor a process."],
            [1, "Memory", "memory", "What a rank holds."],
            [1, "Tensor parallelism: shard the computation", "tp", "Each rank has a part."],
            *([1, f"Section {number}", f"s{number}", "Of something else."] for number in range(60)),
        ],
    }
    found = run_javascript(
        ENGINE,
        f"const sections = m.prepare({json.dumps(index)});"
        "return m.search(sections, 'tensor parallel', 20).map(r => r.section.anchor);",
    )
    assert found[0] == "tp"


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


TOPIC = {
    "pages": [
        ["Solutions: PPO", "solutions/12_ppo/index.html", ""],
        ["Exercises: PPO", "exercises/12_ppo/index.html", ""],
        ["PPO", "notebooks/12_ppo/index.html", ""],
        ["Glossary", "book/glossary/index.html", ""],
    ],
    "sections": [
        [0, "Clip", "a", "clip clip clip clip"],
        [0, "Clip twice", "b", "clip clip"],
        [1, "Clip", "c", "clip clip clip"],
        [2, "The ratio", "d", "We clip the ratio."],
        [2, "The loss", "e", "It is clip and mean; clip."],
        [3, "Clip", "f", "clip: to cut off."],
    ],
}


def test_a_chapter_its_exercises_and_solutions_are_one_hit_and_the_chapter_leads() -> None:
    found = run_javascript(
        ENGINE,
        f"return m.search(m.prepare({json.dumps(TOPIC)}), 'clip')"
        ".map(r => [r.section.path.split('/')[0], r.section.anchor, r.below]);",
    )
    first = [name for name in found if name[0] != "book"]
    assert first == [
        ["notebooks", "e", False],
        ["notebooks", "d", True],
        ["exercises", "c", True],
        ["solutions", "a", True],
    ]
    assert ["book", "f", False] in found and len(found) == 5


def test_exercises_alone_lead_where_the_chapter_says_nothing() -> None:
    index = {"pages": TOPIC["pages"][:2], "sections": TOPIC["sections"][:3]}
    found = run_javascript(
        ENGINE,
        f"return m.search(m.prepare({json.dumps(index)}), 'clip').map(r => r.section.anchor);",
    )
    assert found == ["c", "a"]
