"""Predictions: the guess, the truth over it, the score that is kept, and those of the pages."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import nbkit
from bookkit.authoring.notebook_file import join
from bookkit.exercises import prediction_plot, predictions
from bookkit.exercises.prediction_plot import Plot
from bookkit.exercises.predictions import score_of, scores
from bookkit.exercises.progress import load
from tests.exercises.test_progress import run

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "notebooks").glob("*.ipynb"))
ASKED_IN = ("01", "11", "12", "21", "22", "24", "31", "32", "33", "41")
KINDS = ("long", "short", "middle")


@pytest.fixture(autouse=True)
def new_session(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a fresh kernel: nothing is asked, no truth has been drawn."""
    monkeypatch.setattr(predictions, "_asked", {})
    monkeypatch.setattr(predictions, "_shown", set())
    yield


def predict(points, **changed) -> None:
    axes = {"x": "update", "y": "share", "x_range": (0, 10), "y_range": (0, 2)} | changed
    nbkit.predict("a.curve", points, **axes)


def predict_kinds(points, **changed) -> None:
    predict(points, x_range=None, places=KINDS, **changed)


def test_a_guess_is_scored_against_the_truth_and_kept(capsys, own_progress: Path):
    predict([(10, 2), (0, 0)])
    nbkit.reveal("a.curve", range(11), [0.2 * x for x in range(11)])
    assert "100 of 100" in capsys.readouterr().out
    assert scores() == {"a.curve": 100}
    code, text = run("progress")
    assert code == 0 and "prediction a.curve: 100 of 100" in text
    predict([(0, 0), (10, 0)])
    nbkit.reveal("a.curve", range(11), [2.0] * 11)
    said = capsys.readouterr().out
    assert "0 of 100, on average 2 apart. Furthest at 10: 0 guessed, 2 true." in said
    assert "first guess, 100 of 100, is the one" in said
    assert scores() == {"a.curve": 100}
    assert load(own_progress).predictions["a.curve"].points == [(0.0, 0.0), (10.0, 2.0)]


@pytest.mark.parametrize("points", [[], [(0, None), (10, None)]])
def test_without_a_guess_nothing_is_kept(capsys, own_progress: Path, points):
    predict(points)
    assert "No guess yet" in capsys.readouterr().out
    nbkit.reveal("a.curve", [0, 1], [1, 1], book=[(0, 1.5)])
    said = capsys.readouterr().out
    assert "You have not guessed" in said
    assert "The book's guess: 75 of 100, on average 0.5 apart." in said
    assert scores() == {} and not own_progress.exists()


def test_a_guess_before_the_truth_may_be_corrected(own_progress: Path):
    predict([(0, 2)])
    predict([(0, 1), (5, None)])
    assert load(own_progress).predictions["a.curve"].points == [(0.0, 1.0)]
    nbkit.reveal("a.curve", [0, 1], [1, 1])
    assert scores() == {"a.curve": 100}


def test_a_guess_after_the_truth_is_scored_and_not_kept(capsys, own_progress: Path):
    predict([])
    nbkit.reveal("a.curve", [0, 1], [1, 1])
    predict([(0, 1)])
    nbkit.reveal("a.curve", [0, 1], [1, 1])
    said = capsys.readouterr().out
    assert "Your guess: 100 of 100" in said and "so it is not kept" in said
    assert scores() == {} and not own_progress.exists()


def test_points_that_are_no_curve_are_refused():
    with pytest.raises(ValueError, match=r"the point \(11, 1\) of your guess lies outside"):
        predict([(11, 1)])
    with pytest.raises(ValueError, match="have the same x"):
        predict([(1, 1), (1, 2)])
    with pytest.raises(ValueError, match=r"nothing was predicted as 'b\.curve'"):
        nbkit.reveal("b.curve", [0], [0])
    predict([(0, 1)])
    with pytest.raises(ValueError, match="its x rising"):
        nbkit.reveal("a.curve", [1, 0], [1, 1])
    with pytest.raises(ValueError, match=r"the point \(0, 3\) of the book's guess lies outside"):
        nbkit.reveal("a.curve", [0, 1], [1, 1], book=[(0, 3)])
    with pytest.raises(ValueError, match="give `x_range` for numbers, or `places` for names"):
        predict([], places=KINDS)


def test_named_places_take_a_guess_for_each(capsys):
    with pytest.raises(ValueError, match="'wide' is no place of this plot: it has long, short"):
        predict_kinds([("wide", 1)])
    predict_kinds([("long", 1), ("short", None), ("middle", None)])
    assert "no number yet for: short, middle." in capsys.readouterr().out
    assert scores() == {}
    predict_kinds([("short", 0), ("middle", 2), ("long", 1)])
    nbkit.reveal("a.curve", KINDS, [1, 0, 1])
    said = capsys.readouterr().out
    assert "83 of 100, on average 0.333 apart. Furthest at middle: 2 guessed, 1 true." in said
    assert scores() == {"a.curve": 83}


def test_a_logarithmic_axis_counts_in_factors(capsys):
    predict([(0, 1.0), (2, 100.0)], y_range=(1e-2, 1e2), log_y=True)
    nbkit.reveal("a.curve", [0, 1, 2], [1.0, 1.0, 100.0])
    said = capsys.readouterr().out
    assert "92 of 100, on average a factor of 2.15 apart" in said  # 10 at one of three places
    with pytest.raises(ValueError, match="must be above 0: its axis is logarithmic"):
        nbkit.reveal("a.curve", [0], [0.0])


def test_between_points_run_straight_lines_and_the_score_counts_the_height():
    guess = [(0.0, 0.0), (4.0, 2.0)]
    plot = Plot("a.b", "x", "y", (0, 1), (0, 4))
    assert [plot.value_of(guess, x) for x in (-1, 0, 1, 4, 9)] == [0, 0, 0.5, 2, 2]
    assert score_of(plot, [1.0, 3.0]) == 50
    assert score_of(plot, [9.0]) == 0


def test_all_figures_have_alternative_text(monkeypatch):
    seen = []
    monkeypatch.setattr(prediction_plot, "show", lambda figure, alt, data: seen.append(alt))
    predict([])
    predict([(0, 1), (5, 2)])
    nbkit.reveal("a.curve", [0, 1], [0.5, 1], book=[(0, 1)])
    assert seen[0] == "share against update: an empty plot for a guess."
    assert seen[2] == (
        "share against update: a guess from 1 to 2 and the book's guess from 1 to 1 and "
        "the truth from 0.5 to 1."
    )
    predict_kinds([])
    nbkit.reveal("a.curve", KINDS, [1, 0, 1])
    assert seen[-1] == "share against update: the truth long 1, short 0, middle 1."


def test_what_lies_beyond_the_plot_is_drawn(monkeypatch):
    limits = []
    monkeypatch.setattr(
        prediction_plot,
        "show",
        lambda figure, alt, data: limits.append(
            (figure.axes[0].get_xlim(), figure.axes[0].get_ylim(), data["xRange"])
        ),
    )
    predict([])
    nbkit.reveal("a.curve", [0, 11], [0.5, 7])
    assert limits == [((0, 10), (0, 2), (0, 10)), ((0, 11), (0, 7), (0, 11))]


def test_the_built_page_is_told_what_to_ask_and_what_happened(monkeypatch):
    told = []
    monkeypatch.setattr(prediction_plot, "show", lambda figure, alt, data: told.append(data))
    predict([(10, None), (0, 1.0)], y="share\nof all")
    nbkit.reveal("a.curve", [0, 1 / 3], [0.5, 2 / 3], book=[(0, 1)])
    asked, shown = told
    assert asked["at"] == [0, 10] and "truth" not in asked and asked["y"] == "share of all"
    assert shown["truth"] == [[0, 0.5], [0.3333, 0.6667]] and shown["book"] == [[0, 1]]
    assert json.loads(json.dumps(shown))["yRange"] == [0, 2]
    predict_kinds([("short", None), ("long", None)])
    assert told[-1]["at"] == [0, 1] and told[-1]["places"] == KINDS


def calls(page: Path, function: str) -> list[tuple[int, ast.Call, dict]]:
    """The calls of nbkit.predict or nbkit.reveal on a page: number of the cell, call, cell."""
    found = []
    for number, cell in enumerate(json.loads(page.read_text())["cells"]):
        code = join(cell["source"])
        if cell["cell_type"] == "code" and f"nbkit.{function}(" in code:
            wanted = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call))
            found += [
                (number, c, cell) for c in wanted if ast.unparse(c.func) == f"nbkit.{function}"
            ]
    return found


def named(call: ast.Call) -> str:
    assert isinstance(call.args[0], ast.Constant)
    return str(call.args[0].value)


def printed(cell: dict) -> str:
    return "".join(join(out["text"]) for out in cell["outputs"] if "text" in out)


def test_each_main_run_is_predicted():
    asking = {page.name[:2] for page in PAGES if calls(page, "predict")}
    assert asking >= set(ASKED_IN)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name[:2])
def test_a_page_asks_before_it_shows_and_leaves_the_guess_to_the_reader(page: Path):
    asked = {named(call): number for number, call, _ in calls(page, "predict")}
    shown = {named(call): number for number, call, _ in calls(page, "reveal")}
    assert asked.keys() == shown.keys()
    assert all(asked[name] < shown[name] for name in asked)
    for _, _, cell in calls(page, "predict"):
        assert "No guess yet" in printed(cell), "a page is stored without a guess of a learner"
    for _, call, cell in calls(page, "reveal"):
        assert "book" in {keyword.arg for keyword in call.keywords}
        assert "The book's guess: " in printed(cell)
        assert call.end_lineno is not None
        around = join(cell["source"]).splitlines()[max(0, call.lineno - 3) : call.end_lineno]
        assert any("# " in line for line in around), (
            "say in a comment in the call, or right above it, by which rule the guess was made"
        )


def test_no_two_predictions_have_one_id():
    names = [named(call) for page in PAGES for _, call, _ in calls(page, "predict")]
    assert sorted(names) == sorted(set(names))
