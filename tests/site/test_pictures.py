"""The drawings: as they are drawn, and true."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bookkit.site.commands import app
from bookkit.site.pictures import chapters_basics, chapters_systems, gallery

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
