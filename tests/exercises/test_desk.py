"""The learner's desk: standing, solutions, a reset, the exam form."""

import json
import shutil
from pathlib import Path

import pytest

import nbkit
from bookkit.authoring.notebook_file import join
from bookkit.exercises.desk import as_html, as_text, standings, whole_book
from bookkit.exercises.progress import Progress, load, note_attempt
from bookkit.exercises.registry import UnknownExercise, sections_of_chapter
from tests.authoring.book import Book, one_sentence
from tests.exercises.test_progress import run

ROOT = Path(__file__).parents[2]
GAE = "ppo.gae.1"


def test_each_chapter_says_how_much_is_done_what_is_next_and_what_passes_do_not_prove(own_progress):
    first, second = (section.id for section in sections_of_chapter(11)[:2])
    note_attempt(first, True)
    note_attempt(second, False)
    found = standings(load(own_progress))
    assert [s.chapter for s in found] == sorted({s.chapter for s in found})
    (eleven,) = (s for s in found if s.chapter == 11)
    assert eleven.done == 1 and eleven.following is not None and eleven.following.id == second
    text, page = as_text(found, {"a.b": 70}), as_html(found, {"a.b": 70})
    assert f"chapter 11: 1 of 9 done; next: {eleven.following.title} ({second}, " in text
    assert "prediction a.b: 70 of 100" in text and "a.b</code>: 70 of 100" in page
    assert '<a href="exercises/11_reinforce.ipynb">' in page
    assert page.count("<details>") == 1 and eleven.places[0].not_tested[:20] in page
    whole = Progress()
    assert as_text(standings(whole), {}).count("; next: ") == len(found)


def test_builds_stand_with_their_chapter_and_the_capstone_with_the_book(own_progress):
    note_attempt("build.12", False, {"CartPole-v1": 31.25})
    note_attempt("build.12", True, {"CartPole-v1": 499.5, "LunarLander-v3": 231.0})
    note_attempt("build.24", False)
    note_attempt("build.capstone", False, {"held-out accuracy, %": 61.5})
    kept = load(own_progress)
    day = f"{kept.exercises['build.12'].first_passed:%Y-%m-%d}"
    found, whole = standings(kept), whole_book(kept)
    assert {s.chapter for s in found if s.builds} >= {11, 12, 24, 31, 32}
    text, page = as_text(found, {}, whole), as_html(found, {}, whole)
    said = f"passed {day}, 2 tries; last scores: CartPole-v1 499.5, LunarLander-v3 231"
    assert f"  build: PPO in one file: {said}" in text and said in page
    assert "  build: REINFORCE that keeps its language: not tried" in text
    assert f"  build: GRPO on sums: not yet, tried {day}, 1 try\n" in text
    assert "held-out accuracy, % 61.5" in text.splitlines()[-1] and "Whole book: ✘" in page
    assert '✔ <a href="exercises/builds/12_ppo.py">' in page
    for place in (*whole, *(build for s in found for build in s.builds)):
        assert (ROOT / place.page).is_file() and (ROOT / place.file).is_file()
    code, table = run("progress")
    assert code == 0 and said in " ".join(table.split()) and "build.capstone" in table
    _, table = run("progress", "--chapter", "11")
    assert "build.11" in table and "build.12" not in table and "capstone" not in table


def test_the_desk_is_printed(capsys: pytest.CaptureFixture[str]):
    nbkit.desk()
    assert "chapter 12: 0 of 10 done; next: " in capsys.readouterr().out


def test_a_solution_is_shown_after_a_try_or_on_request(capsys: pytest.CaptureFixture[str]):
    nbkit.solution(GAE)
    said = capsys.readouterr().out
    assert "has not been tried" in said and "def gae" not in said
    nbkit.solution(GAE, anyway=True)
    assert "def gae(" in capsys.readouterr().out
    note_attempt(GAE, False)
    nbkit.solution(GAE)
    assert "trace = deltas[t]" in capsys.readouterr().out
    with pytest.raises(UnknownExercise, match="did you mean"):
        nbkit.solution("ppo.gea.1")


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Book:
    """A checkout with the exercises of chapter 12 alone."""
    for folder, name in (("solutions", "12_ppo.md"), ("exercises", "12_ppo.ipynb")):
        (tmp_path / folder).mkdir()
        shutil.copy(ROOT / folder / name, tmp_path / folder)
    for name in ("pyproject.toml", "myst.yml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "nbkit").mkdir()
    return Book(tmp_path)


def gae_cell(book: Book) -> dict:
    cells = book.notebook("exercises/12_ppo.ipynb")["cells"]
    return next(c for c in cells if c["cell_type"] == "code" and "def gae(" in join(c["source"]))


@pytest.mark.parametrize("mine", ["    return mine\n", "    return mine(((\n"])
def test_a_reset_puts_the_stub_back_and_keeps_what_was_written(book: Book, mine: str):
    stub = join(gae_cell(book)["source"])
    body = '    raise NotImplementedError("gae is to be written")'
    assert body in stub
    book.edit_notebook("exercises/12_ppo.ipynb", body, mine)
    before = book.notebook("exercises/12_ppo.ipynb")
    said = book.nbkit("exercises", "reset", GAE)
    assert "holds the stub again" in said
    assert join(gae_cell(book)["source"]) == stub
    (kept,) = (book.root / ".nbkit/kept" / GAE).glob("*.py")
    assert mine.strip() in kept.read_text()
    after = book.notebook("exercises/12_ppo.ipynb")
    changed = [a["id"] for a, b in zip(after["cells"], before["cells"], strict=True) if a != b]
    assert changed == [gae_cell(book)["id"]]
    assert "is as it was handed out" in book.nbkit("exercises", "reset", GAE)
    assert "did you mean" in one_sentence(book.nbkit("exercises", "reset", "ppo.gea.1", status=1))
    book.edit_notebook("exercises/12_ppo.ipynb", "def gae(\n    rewards: Tensor,\n", "def other(\n")
    assert "no cell of exercises/12_ppo.ipynb defines gae" in one_sentence(
        book.nbkit("exercises", "reset", GAE, status=1)
    )


def test_the_exam_form_has_no_hints_and_no_checks(book: Book):
    said = book.nbkit("exercises", "exam", str(book.root / "exam"), "--chapter", "12")
    assert "written without hints and checks" in said
    exam, exercise = book.notebook("exam/12_ppo.ipynb"), book.notebook("exercises/12_ppo.ipynb")
    text = "\n".join(join(cell["source"]) for cell in exam["cells"])
    whole = "\n".join(join(cell["source"]) for cell in exercise["cells"])
    assert whole.count("{dropdown} Hint") == 30 and whole.count("nbkit.check(") >= 10
    assert "Hint" not in text and "nbkit.check(" not in text and "almost the code" not in text
    for section in sections_of_chapter(12):
        assert f"def {section.function}(" in text
        assert whole.count(f"`{section.id}`") == text.count(f"`{section.id}`")
    assert text.count("**By hand.**") == whole.count("**By hand.**") > 5
    assert "This is the exam form" in text
    assert json.dumps(exam).count("written") < 60  # no cell carries its former text
