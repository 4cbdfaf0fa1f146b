"""What a build shows: the film, the curves, the text."""

import io

import numpy as np
import pytest
from PIL import Image

from bookkit.builds.control import Held, disguise
from bookkit.builds.notes import Notes
from bookkit.builds.registry import get_build
from bookkit.builds.report import alt_of, as_text, figure, table, value_at
from bookkit.builds.verdict import Curve, Finding, Picture, Verdict
from nbkit import plots
from nbkit.control.environments import make_control_env


def noise(count: int, height: int, width: int) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return list(generator.integers(0, 256, (count, height, width, 3), dtype=np.uint8))


def test_a_film_is_wide_captioned_and_small() -> None:
    frames = [np.full((100, 160, 3), 10 * i, dtype=np.uint8) for i in range(20)]
    words = [f"step {i}" for i in range(20)]
    made = plots.film(frames, caption="A box grows light.", alt="A <box>", words=words)
    film = Image.open(io.BytesIO(made.webp))
    assert film.format == "WEBP" and film.n_frames > 10
    assert film.size == made.size and film.width >= 480 and film.height > 300
    assert len(made.webp) <= 500_000
    # as long as its frames say, played twice
    shown = 0.0
    for at in range(film.n_frames):
        film.seek(at)
        film.load()
        shown += film.info["duration"] / 1000
    assert made.seconds == pytest.approx(2 * shown)
    poster = Image.open(io.BytesIO(made.poster))
    assert poster.size == film.size and poster.n_frames == 1
    # the bar under the picture is dark and holds light letters
    bar = np.asarray(poster.convert("L"))[-30:]
    assert bar.min() < 60 and bar.max() > 200
    page = made._repr_html_()
    assert "prefers-reduced-motion: reduce" in page and 'alt="A &lt;box&gt;"' in page
    assert "<figcaption>A box grows light.</figcaption>" in page


def test_a_film_that_is_too_large_loses_quality_and_frames_first() -> None:
    frames = noise(12, 320, 480)
    whole = plots.film(frames, caption="Noise.", alt="Noise.", max_bytes=10**9)
    limit = len(whole.webp) // 3
    smaller = plots.film(frames, caption="Noise.", alt="Noise.", max_bytes=limit)
    assert len(smaller.webp) <= limit
    with pytest.raises(ValueError, match="over 100 bytes"):
        plots.film(frames, caption="Noise.", alt="Noise.", max_bytes=100)


def test_films_side_by_side_keep_their_places_and_stand_still_at_their_ends() -> None:
    red, green, blue = (
        [np.full((40, 60, 3), colour, dtype=np.uint8)] * count
        for colour, count in (((200, 0, 0), 3), ((0, 200, 0), 1), ((0, 0, 200), 2))
    )
    films, words = (red, green, blue), [["a"] * 3, ["b"], ["c"] * 2]
    joined = plots.beside(films, words, columns=2, width=90, hold=2)
    assert len(joined) == 3 + 2
    for frame in joined:
        height, width, _ = frame.shape
        assert width == 2 * 90 + plots.GAP and height % 2 == 0
        assert frame[10, 10].tolist() == [200, 0, 0]
        assert frame[10, 90 + plots.GAP + 10].tolist() == [0, 200, 0]
        assert frame[height // 2 + 10, 10].tolist() == [0, 0, 200]
        assert frame[-10, -10].tolist() == list(plots.BAR_COLOUR)  # where a fourth would stand
        assert frame[height // 2 - 30 : height // 2, :90].max() > 240  # the text below the first


def test_films_side_by_side_say_what_they_lack() -> None:
    frames = noise(2, 8, 8)
    with pytest.raises(ValueError, match="at least one film"):
        plots.beside([], [])
    with pytest.raises(ValueError, match="at least one frame"):
        plots.beside([frames, []], [["a", "b"], []])
    with pytest.raises(ValueError, match="a text a frame"):
        plots.beside([frames], [["a"]])


@pytest.mark.parametrize(
    "given",
    [{"frames": []}, {"caption": " "}, {"alt": ""}, {"words": ["one"]}],
    ids=lambda given: next(iter(given)),
)
def test_a_film_says_what_it_lacks(given: dict) -> None:
    words = {"frames": noise(2, 8, 8), "caption": "a", "alt": "b", **given}
    with pytest.raises(ValueError, match=f"{next(iter(given))}|caption and alt"):
        plots.film(**words)


PICTURE = Picture(
    "Task",
    "steps",
    "return",
    (
        Curve("yours", ((0.0, 1.0), (500.0, 5.0), (1000.0, 9.0))),
        Curve("the book", ((0.0, 2.0), (400.0, 8.0))),
    ),
    7.0,
)


def test_curves_stand_side_by_side_and_do_not_go_on_beyond_their_end() -> None:
    head, yours, book = table(PICTURE)
    assert head.split() == ["steps", "100", "250", "500", "1,000"]
    assert yours.split() == ["yours", "1.0", "1.0", "5.0", "9.0"]
    assert book.split() == ["the", "book", "2.0", "2.0", "–", "–"]
    assert value_at(PICTURE.curves[1].points, 440.0) == 8.0
    drawn = figure([PICTURE])
    assert len(drawn.axes[0].lines) == 3
    assert "yours ends at 9" in alt_of([PICTURE])


def test_a_pass_needs_every_stage_and_no_early_end() -> None:
    build = get_build(12)
    good = tuple(Finding(stage.title, True, "fine") for stage in build.stages)
    assert Verdict(build, good).passed
    assert not Verdict(build, good[:-1]).passed
    assert not Verdict(build, good, stopped="it hangs").passed
    bad = Verdict(build, (*good[:-1], Finding("LunarLander-v3", False, "mean return 20")))
    assert not bad.passed and bad.sentences == ("mean return 20",)
    assert as_text(bad).startswith("✘ build 12") and "✘ LunarLander-v3: mean return 20" in as_text(
        bad
    )
    assert "A pass does not prove" in as_text(Verdict(build, good))
    open_air = Verdict(build, good, layers=("unprotected",))
    assert "has no sandbox" in as_text(open_air) and "no sandbox" not in as_text(bad)


def test_what_was_logged_is_read_as_in_the_chapter() -> None:
    notes = Notes()
    assert "nothing was logged" in notes.findings()[0]
    for _ in range(12):
        notes.take({"kl": 0.5, "clip_fraction": 0.1, "name": "x"})
    (finding,) = notes.findings()
    assert finding.startswith("kl is 0.5")
    notes.take({"kl": float("nan")})
    assert notes.findings() == ["kl is not a number in the last updates"]


def test_the_judge_counts_returns_by_itself() -> None:
    env = make_control_env("CartPole-v1", 4)
    held = Held(env, 7, 4 * 120, disguise(env, None))
    held.answer("reset", {}, {})
    for _ in range(120):
        held.answer("step", {}, {"actions": np.zeros(4, dtype=np.int64)})
    assert held.used == 480 and held.counts.tolist() == [480, 0]
    assert len(held.finished) > 30
    # one push to the left all the time: an episode lasts eight to eleven steps
    assert all(7 <= value <= 12 for _, value in held.finished)
    curve = held.curve()
    assert curve[-1][0] == held.finished[-1][0] and 8 <= curve[-1][1] <= 11
