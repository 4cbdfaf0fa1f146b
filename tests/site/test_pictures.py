"""The drawings: as they are drawn, and true."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bookkit.site.commands import app
from bookkit.site.pictures import (
    chapters_basics,
    chapters_systems,
    gallery,
    reward_spectrum,
    rlhf_flow,
    token_tree,
    zero_shares,
)
from nbkit.rewards.formats import TAGS
from nbkit.runs.results import read_result

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "book" / "pictures"


def test_files_are_as_drawn() -> None:
    assert gallery.stale_pictures(FOLDER) == []


def test_no_file_without_a_drawing() -> None:
    assert {path.stem for path in FOLDER.glob("*.svg")} == set(gallery.PICTURES)


@pytest.mark.parametrize("name", gallery.PICTURES)
def test_drawing_is_well_formed_and_within_its_frame(name: str) -> None:
    root = ElementTree.fromstring(gallery.PICTURES[name]())
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for shape in root.iter("{http://www.w3.org/2000/svg}rect"):
        left, top = float(shape.attrib["x"]), float(shape.attrib["y"])
        assert 0 <= left <= left + float(shape.attrib["width"]) <= width
        assert 0 <= top <= top + float(shape.attrib["height"]) <= height
    for shape in root.iter("{http://www.w3.org/2000/svg}path"):
        numbers = [float(n) for n in re.findall(r"-?\d+\.?\d*", shape.attrib["d"])]
        assert all(0 <= x <= width for x in numbers[::2])
        assert all(0 <= y <= height for y in numbers[1::2])
    for shape in root.iter("{http://www.w3.org/2000/svg}text"):
        assert 0 <= float(shape.attrib["x"]) <= width
        assert 0 <= float(shape.attrib["y"]) <= height


def test_drawing_is_the_same_every_time() -> None:
    assert [draw() for draw in gallery.PICTURES.values()] == [
        draw() for draw in gallery.PICTURES.values()
    ]


def test_sharding_shows_the_bytes_of_zero() -> None:
    """Rajbhandari et al. 2020, figure 1, for four ranks and 16 bytes a parameter."""
    bars = re.findall(r">([\d.]+) B<", chapters_systems.sharding())
    assert [float(bar) for bar in bars] == [16, 2 + 2 + 3, 2 + (2 + 12) / 4, 16 / 4]


def test_reinforce_rewards_the_words_before_and_punishes_those_after() -> None:
    heights = re.findall(
        r'width="14.0" height="([\d.]+)"[^>]*fill:var\(--(\w+)', chapters_basics.reinforce()
    )
    assert [tone for _, tone in heights] == ["build"] * 4 + ["break"] * 2
    sizes = [float(height) for height, _ in heights]
    assert sizes[:4] == sorted(sizes[:4])


def texts(svg: str) -> list[str]:
    """Every text of a drawing, in the order in which it is drawn."""
    return re.findall(r">([^<>\n]+)</text>", svg)


def areas(svg: str) -> dict[str, float]:
    """Sum of the areas of the boxes of each colour."""
    found: dict[str, float] = {}
    for width, height, tone in re.findall(
        r'width="([\d.]+)" height="([\d.]+)"[^>]*fill:var\(--([\w-]+)', svg
    ):
        found[tone] = found.get(tone, 0.0) + float(width) * float(height)
    return found


def test_zero_shares_hold_the_bytes_of_the_paper() -> None:
    """Rajbhandari et al. 2020, section 3: 2 + 2 + 12 bytes, and four ranks."""
    sums = [text for text in texts(zero_shares.zero_shares()) if "=" in text]
    assert sums == [
        "2 + 2 + 12 = 16 bytes a parameter",
        "2 + 2 + 3 = 7 bytes a parameter",
        "2 + 0.5 + 3 = 5.5 bytes a parameter",
        "0.5 + 0.5 + 3 = 4 bytes a parameter",
    ]


def test_areas_of_zero_shares_are_the_memory_of_all_ranks() -> None:
    """Whole parameters on every rank in three of the four stages, and one copy in the last."""
    found = areas(zero_shares.zero_shares())
    legend = 10.0 * 10.0
    byte = zero_shares.BAR * zero_shares.BYTE
    copies = {"build": 2 * (3 * 4 + 1), "break": 2 * (2 * 4 + 2), "scale": 12 * (4 + 3)}
    for tone, expected in copies.items():
        assert found[tone] - legend == pytest.approx(byte * expected, rel=0.01)


def test_each_rank_of_stage_3_holds_another_quarter() -> None:
    bars = [zero_shares._bars(3, rank, 0.0)[1] for rank in range(4)]
    starts = [float(re.findall(r' x="([\d.]+)"', bar)[0]) for bar in bars]
    columns = [zero_shares.LEFT + zero_shares.COLUMN * rank for rank in range(4)]
    shares = [(x - left) / zero_shares.BAR for x, left in zip(starts, columns, strict=True)]
    assert shares == pytest.approx([0, 0.25, 0.5, 0.75], abs=0.002)


def test_token_tree_is_a_distribution_over_texts() -> None:
    leaves = token_tree.leaves()
    assert len(set(leaves)) == 7
    assert sum(map(token_tree.probability, leaves)) == 1
    assert [leaf for leaf in leaves if token_tree.final_return(leaf)] == [("a", "b", "EOS")]
    assert token_tree.value(()) == 0.5 * 0.25
    assert token_tree.value(("a",)) == 0.25


def test_token_tree_says_its_numbers() -> None:
    said = texts(token_tree.token_tree())
    assert said.count("EOS") == said.count("return 0") + said.count("return 1") == 7
    assert said.count("0.5") == 3
    assert said.count("0.25") == 6
    assert said.count("1") == 4
    assert "V = 0.125" in said
    assert "sampled: a, b, EOS, with probability 0.5 · 0.25 · 1 = 0.125" in said


def test_rlhf_data_flow_uses_the_names_and_shapes_of_the_chapter() -> None:
    page = (REPOSITORY / "notebooks" / "21_rlhf.md").read_text(encoding="utf-8")
    table = page.partition("| Symbol | Name in code |")[2].partition("\n\n")[0]
    named = {
        name: shape
        for _, names, shape, _ in re.findall(r"\| (.+?) \| (.+?) \| (\(.+?\)) \| (.+?) \|", table)
        for name in re.findall(r"`(\w+)`", names)
    }
    said = texts(rlhf_flow.rlhf_data_flow())
    for _, _, tensor, shape in rlhf_flow.MODELS[:3]:
        assert named[tensor] == shape, tensor
    for name in ("rewards", "advantages", "returns", "mask"):
        assert f"{name} {named[name]}" in said
    assert f"ids, attention {named['ids']}" in said
    assert named["attention"] == named["ids"]


def test_models_of_the_data_flow_are_trained_as_the_chapter_says() -> None:
    page = (REPOSITORY / "notebooks" / "21_rlhf.md").read_text(encoding="utf-8")
    rows = re.findall(r"\| (policy|reference|reward model|value model) \$.+?\| (yes|no)\b", page)
    drawn = {name: state == rlhf_flow.TRAINED for name, state, *_ in rlhf_flow.MODELS}
    assert drawn == {name: trained == "yes" for name, trained in rows}


def test_speeds_of_the_spectrum_are_the_recorded_ones() -> None:
    speeds = read_result("benchmarks/results/rewards.json")["rewards"]
    said = " ".join(texts(reward_spectrum.reward_spectrum())).replace(",", "")
    for name, pattern in (
        ("numeric answers", r"numbers (\d+)"),
        ("symbolic answers", r"formulas (\d+) a second"),
        ("HumanEval solutions with tests", r"(\d+) programs a second"),
    ):
        median = speeds[name]["per_second_median_least_most"][0]
        assert float(re.findall(pattern, said)[0]) == pytest.approx(median, rel=0.05), name


def test_values_of_the_spectrum_are_those_of_the_rewards() -> None:
    exact, tests, form, *_ = reward_spectrum.kinds()
    assert exact.values == (0, 1)
    page = (REPOSITORY / "notebooks" / "23_verifiers.md").read_text(encoding="utf-8")
    asserts = page.partition("TESTS = (")[2].partition(")\n")[0].count("assert ")
    assert tests.values == [number / asserts for number in range(asserts + 1)]
    assert form.values == [number / len(TAGS) for number in range(len(TAGS) + 1)]


def test_check_names_what_is_stale(tmp_path: Path) -> None:
    (tmp_path / "myst.yml").write_text("version: 1\n", encoding="utf-8")
    runner = CliRunner()
    options = ["pictures", "--project", str(tmp_path)]
    before = runner.invoke(app, [*options, "--check"])
    assert before.exit_code == 1
    assert "12_ppo" in before.output
    assert "nbkit book pictures" in before.output
    assert runner.invoke(app, options).exit_code == 0
    assert runner.invoke(app, [*options, "--check"]).exit_code == 0
    (tmp_path / "book" / "pictures" / "12_ppo.svg").write_text("<svg/>", encoding="utf-8")
    edited = runner.invoke(app, [*options, "--check"])
    assert edited.exit_code == 1
    assert "Stale drawings: 12_ppo." in edited.output
