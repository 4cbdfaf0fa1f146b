"""A class of thirty is graded: each gets what it earned, and nobody breaks the grading."""

import contextlib
import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from bookkit.exercises.registry import sections_of_chapter
from bookkit.grading.box import Allowance
from bookkit.grading.grades import Grade, as_csv, as_json, sentences
from bookkit.grading.judge import Grader, Mark
from bookkit.grading.submissions import Submission, find_submissions
from nbkit.errors import UserError
from tests.authoring.book import Book, one_sentence
from tests.grading.submitting import ROOT, STEM, SUBMISSIONS, hand_in, master

STEMS = {STEM: 1, "12_ppo": 12}
HARD = [name for name in SUBMISSIONS if name > "t"]


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("class")
    hand_in(folder)
    return folder


@pytest.fixture(scope="module")
def grader() -> Grader:
    return Grader(7, Allowance(processor_s=4.0, memory_mb=1024, idle_s=6.0), notebook_s=60.0)


def test_thirty_are_handed_in():
    assert len(SUBMISSIONS) == 30


@pytest.mark.slow
@pytest.mark.parametrize("learner", SUBMISSIONS)
def test_each_gets_what_it_earned(learner: str, room: Path, grader: Grader):
    _, states, words = SUBMISSIONS[learner]
    marks = grader.grade(room / learner / f"{STEM}.ipynb", 1)
    assert tuple(mark.state for mark in marks) == states, marks
    for mark in marks:
        assert (mark.marks == mark.out_of) == (mark.state == "passed")
        assert bool(mark.sentence) == (mark.state != "passed")
    wrong = [mark for mark in marks if mark.state != "passed"]
    assert words in (wrong[0].sentence if wrong else ""), wrong[0].sentence
    assert not left_behind()


def left_behind() -> list[str]:
    """Boxes that this process started or that nobody owns; other workers of pytest have their own.

    An orphan is handed to process 1, or to the nearest ancestor that adopts orphans.
    """
    mine = {child.pid for child in psutil.Process().children(recursive=True)}
    left = []
    for process in psutil.process_iter(["cmdline"]):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "bookkit.grading.inside" in (process.info["cmdline"] or []) and (
                process.pid in mine or not any(is_pytest(p) for p in process.parents())
            ):
                left.append(" ".join(process.info["cmdline"]))
    return left


def is_pytest(process: psutil.Process) -> bool:
    words = " ".join(process.cmdline())
    return "pytest" in words or "import sys;exec(eval(sys.stdin.readline()))" in words


@pytest.mark.slow
def test_a_box_left_behind_is_seen():
    words = [sys.executable, "-c", "import time; time.sleep(60)", "bookkit.grading.inside"]
    with subprocess.Popen(words) as own:
        assert len(left_behind()) == 1
        own.kill()


@pytest.mark.slow
def test_the_command_prints_a_table_and_writes_json_and_csv(tmp_path: Path):
    room = tmp_path / "class"
    (room / "ada").mkdir(parents=True)
    (room / "ada" / f"{STEM}.ipynb").write_text(json.dumps(master()))
    record = {"attempts": 3, "last_tried": "2026-01-01T00:00:00Z", "last_passed": True}
    kept = {"version": 1, "exercises": {"score.ess.1": record}}
    (room / "ada" / "progress.json").write_text(json.dumps(kept))
    exercise = ROOT / "exercises" / f"{STEM}.ipynb"
    (room / f"bob_{STEM}.ipynb").write_text(exercise.read_text())
    said = Book(ROOT).nbkit("grade", str(room), "--seed", "5", "--output", str(tmp_path))
    total = sum(section.difficulty for section in sections_of_chapter(1))
    assert f"{total} of {total}  4 of 4  ✔✔✔✔" in said
    assert f"0 of {total}  0 of 4  ○○○○" in said
    found = json.loads((tmp_path / "grades.json").read_text())
    assert found["seed"] == 5
    assert [learner["marks"] for learner in found["learners"]] == [total, 0]
    rows = list(csv.DictReader(io.StringIO((tmp_path / "grades.csv").read_text())))
    assert len(rows) == 8
    tries = {row["exercise"]: row["attempts"] for row in rows if row["learner"] == "ada"}
    assert tries["score.ess.1"] == "3" and tries["score.gradient.1"] == ""
    assert {row["state"] for row in rows if row["learner"] == "bob"} == {"not written"}


def test_an_empty_folder_and_a_strange_chapter_are_refused(tmp_path: Path):
    book = Book(ROOT)
    assert "holds no submissions" in one_sentence(book.nbkit("grade", str(tmp_path), status=1))
    said = one_sentence(book.nbkit("grade", str(tmp_path), "--chapter", "99", status=1))
    assert said == "chapter 99 has no exercises"
    with pytest.raises(UserError, match="is no folder"):
        find_submissions(tmp_path / "none", STEMS)


def test_submissions_are_found_in_folders_and_by_name(tmp_path: Path):
    (tmp_path / "ada" / "deep").mkdir(parents=True)
    (tmp_path / "ada" / "deep" / "12_ppo.ipynb").write_text("{}")
    (tmp_path / "ada" / "12_ppo.ipynb").write_text("{}")
    (tmp_path / "ada" / "notes.ipynb").write_text("{}")
    (tmp_path / "bob").mkdir()
    (tmp_path / "bob" / "12_ppo.ipynb").symlink_to("/etc/passwd")
    (tmp_path / "cy").mkdir()
    (tmp_path / "eve-12_ppo.ipynb").write_text("{}")
    (tmp_path / "what.ipynb").write_text("{}")
    found = {submission.learner: submission for submission in find_submissions(tmp_path, STEMS)}
    assert found["ada"].notebooks == {12: tmp_path / "ada" / "12_ppo.ipynb"}
    assert "handed in twice" in found["ada"].problems[0]
    assert "a link" in found["bob"].problems[0] and not found["bob"].notebooks
    assert "named like an exercise" in found["cy"].problems[0]
    assert found["eve"].notebooks == {12: tmp_path / "eve-12_ppo.ipynb"}
    assert "what.ipynb is named like no exercise" in found[tmp_path.name].problems[0]


def test_a_spreadsheet_takes_no_name_for_a_formula_and_failures_are_told():
    grade = Grade(
        Submission("=cmd()", problems=["late"], attempts={"a.b.1": 2}),
        [Mark("a.b.1", "failed", "@wrong", 0, 3), Mark("a.c.1", "passed", "", 2, 2)],
    )
    rows = list(csv.reader(io.StringIO(as_csv([grade]))))
    assert rows[1] == ["'=cmd()", "a.b.1", "failed", "0", "3", "2", "'@wrong"]
    assert sentences([grade]) == ["=cmd(): late", "=cmd(): a.b.1: @wrong"]
    learner = json.loads(as_json([grade], 3))["learners"][0]
    assert (learner["marks"], learner["out_of"]) == (2, 5)
