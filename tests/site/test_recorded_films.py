"""Films on pages: those that a recorded result names, still for who asks, small."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from javascript import THEME
from PIL import Image
from renderer import films, measured
from renderer.errors import ContentError

from bookkit.site.films import films_of
from nbkit.errors import UserError
from nbkit.runs.sha256 import file_digest

ROOT = THEME.parents[1]
RESULTS = ROOT / "studies/results"
LARGEST_BYTES, LARGEST_SUM_BYTES, NARROWEST = 500_000, 4_000_000, 480


def webp(frames: int, *, plays: int = 2) -> bytes:
    """A small film of 100 ms a frame; with one frame a picture."""
    pictures = [Image.new("RGB", (20, 10), (40 * at, 0, 0)) for at in range(frames)]
    file = io.BytesIO()
    pictures[0].save(
        file,
        "WEBP",
        save_all=frames > 1,
        append_images=pictures[1:],
        duration=100,
        loop=plays,
    )
    return file.getvalue()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A result that names one film."""
    folder = tmp_path / "studies/results/films"
    folder.mkdir(parents=True)
    (folder / "pole.webp").write_bytes(webp(4))
    (folder / "pole.still.webp").write_bytes(webp(1))
    kinds = {"film": "films/pole.webp", "still": "films/pole.still.webp"}
    digests = {kind: file_digest(folder.parent / file) for kind, file in kinds.items()}
    film = {**kinds, "sha256": digests, "size": [20, 10], "caption": "A", "alt": "A <pole>"}
    (folder.parent / "films.json").write_text(json.dumps({"films": {"pole": film}}))
    return tmp_path


@pytest.fixture
def known(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The theme has been told of the checkout's film; its bytes."""
    state = {"stale": False, "known": True, "text": "measured with this code", "facts": "today"}
    told = {
        "results": {"studies/results/films.json": state},
        "pages": {},
        "films": films_of(checkout),
    }
    path = checkout / "measured.json"
    path.write_text(json.dumps(told))
    monkeypatch.setenv(measured.VARIABLE, str(path))
    return (checkout / "studies/results/films/pole.webp").read_bytes()


@pytest.mark.parametrize("kind", ["pole.webp", "pole.still.webp"])
def test_a_film_that_was_not_recorded_is_refused(checkout: Path, kind: str) -> None:
    file = checkout / "studies/results/films" / kind
    file.write_bytes(webp(3))
    with pytest.raises(UserError, match=f"{kind} is not the film that films.json recorded"):
        films_of(checkout)
    file.unlink()
    with pytest.raises(UserError, match=f"films.json names {kind}, which is missing"):
        films_of(checkout)


def test_a_checkout_without_films_has_none(tmp_path: Path) -> None:
    assert films_of(tmp_path) == {}


def test_an_opening_film_is_still_for_who_asks_for_less_motion(known: bytes) -> None:
    html = films.film_html("files/pole.webp", known, ["opening"])
    assert re.search(r'<picture><source srcset="data:image/webp;base64,[^"]+" media="[^"]+', html)
    assert "(prefers-reduced-motion: reduce)" in html
    assert '<img src="files/pole.webp" alt="A &lt;pole&gt;"' in html
    assert 'width="20" height="10"' in html and 'data-seconds="0.8"' in html
    assert "studies/results/films.json" in html and "measured with this code" in html


def test_another_film_is_not_loaded_before_it_is_asked_for(known: bytes) -> None:
    html = films.film_html("files/pole.webp", known, [])
    assert "<picture>" not in html and '<img src="data:image/webp;base64,' in html
    assert 'data-film="files/pole.webp"' in html


def test_the_theme_refuses_a_film_of_no_result(known: bytes) -> None:
    with pytest.raises(ContentError, match="is in no recorded result, or not as it was recorded"):
        films.film_html("files/other.webp", webp(5), [])


@pytest.mark.parametrize(("frames", "plays", "seconds"), [(4, 1, 0.4), (3, 2, 0.6)])
def test_how_long_a_film_plays(frames: int, plays: int, seconds: float) -> None:
    assert films.seconds(webp(frames, plays=plays)) == pytest.approx(seconds)
    assert films.seconds(webp(frames, plays=0)) == float("inf")


@pytest.mark.parametrize("other", [webp(1), b"", b"\x89PNG\r\n", b"RIFF0000WAVE"])
def test_a_picture_is_no_film(other: bytes) -> None:
    assert films.is_film(webp(2)) and not films.is_film(other)


# The book's own films


def test_the_book_s_films_are_as_recorded_wide_and_small() -> None:
    found = films_of(ROOT)
    assert {"cartpole", "reach"} <= {film["name"] for film in found.values()}
    files = sorted((RESULTS / "films").iterdir())
    for file in files:
        assert file.stat().st_size <= LARGEST_BYTES, file.name
        assert Image.open(file).width >= NARROWEST, file.name
    assert sum(file.stat().st_size for file in files) < LARGEST_SUM_BYTES
    recorded = json.loads((RESULTS / "films.json").read_text(encoding="utf-8"))["films"]
    named = {f"films/{file.name}" for file in files}
    assert named == {film[kind] for film in recorded.values() for kind in ("film", "still")}


def test_the_readme_opens_with_a_recorded_film() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r'<img src="(?P<film>[^"]+)" alt="(?P<alt>[^"]+)"', readme)
    still = re.search(
        r'<source media="\(prefers-reduced-motion: reduce\)" srcset="([^"]+)"', readme
    )
    assert shown is not None and still is not None
    film = films_of(ROOT)[file_digest(ROOT / shown["film"])]
    assert film["alt"] == shown["alt"]
    assert (ROOT / still[1]).name == f"{film['name']}.still.webp" and (ROOT / still[1]).is_file()


@pytest.mark.parametrize("page", ["README.md", "book/index.md", "notebooks/41_manipulation.md"])
def test_pages_say_how_many_targets_the_filmed_arms_reach(page: str) -> None:
    recorded = json.loads((RESULTS / "films.json").read_text(encoding="utf-8"))
    *others, last = (str(episode["arrivals"]) for episode in recorded["episodes"]["reach"])
    said = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert f"they reach {', '.join(others)} and {last} targets" in said
