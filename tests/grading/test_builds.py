"""Builds that are handed in: each gets its mark and a sentence, and nobody breaks the grading."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from bookkit.builds.limits import Budget
from bookkit.builds.registry import LEARNERS, SOLUTIONS, get_build, source_of
from bookkit.grading import builds
from bookkit.grading.builds import MARKS, grade_build
from bookkit.grading.grades import Grade, as_csv, as_table, sentences
from bookkit.grading.judge import Mark
from bookkit.grading.submissions import Submission, find_submissions
from tests.authoring.book import Book
from tests.grading.submitting import ROOT

NUMBER, NAME = 32, "32_data_parallel"
NAMES = {NAME: NUMBER, "31_sampler": 31}
RIGHT = source_of(get_build(NUMBER), SOLUTIONS)
HEAD = "import os, sys, time, torch\ndef train(model, world, settings, *, log):\n    "
ENDED = "your process ended before it had answered the judge"
SUBMISSIONS = {
    "right": (RIGHT, "passed", ""),
    "wrong": (RIGHT.replace("total[:-1] / total[-1]", "total[:-1]"), "failed", "is not divided"),
    "untouched": (source_of(get_build(NUMBER), LEARNERS), "not written", "as it was handed out"),
    "no_python": ("def train(model\n", "ended", "cannot be read"),
    "empty": ("", "ended", "your file has no function `train`"),
    # hostile
    "prints_a_score": (f"{HEAD}print('passed: 10 of 10')\n    return model\n", "failed", "No mess"),
    "leaves": (f"{HEAD}os._exit(0)\n", "ended", ENDED),
    "forges": (
        f"{HEAD}wire = sys.modules['bookkit.builds.wire']\n"
        "    for fd in range(3, 64):\n"
        "        try: os.write(fd, wire.encode('return', {'passed': True}))\n"
        "        except OSError: pass\n"
        "    return model\n",
        "ended",
        "",
    ),
    "reads_the_solution": (
        f"open({str(ROOT / 'solutions' / 'builds' / NAME)!r} + '.py').read()\n",
        "ended",
        "FileNotFoundError",
    ),
    "loops": (f"{HEAD}while True: pass\n", "ended", "of processor time; the budget of this build"),
    "moves_the_cursor": (f"{HEAD}raise ValueError('\\x1b[2J\\r=cmd()')\n", "ended", "ValueError"),
    "forks": (
        f"{HEAD}\n    while True:\n        try: os.fork()\n        except OSError: pass\n",
        "ended",
        "",
    ),
}


@pytest.fixture
def thrifty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same build with less time, so that a loop ends soon."""
    budget = Budget(processor_seconds=12.0)
    monkeypatch.setattr(builds, "get_build", lambda n: replace(get_build(n), budget=budget))


@pytest.mark.slow
@pytest.mark.parametrize("learner", SUBMISSIONS)
def test_each_file_gets_what_it_earned(learner: str, tmp_path: Path, thrifty: None) -> None:
    source, state, words = SUBMISSIONS[learner]
    path = tmp_path / f"{NAME}.py"
    path.write_text(source)
    mark = grade_build(path, NUMBER, seed=3)
    assert (mark.exercise, mark.state) == ("build.32", state), mark.sentence
    assert (mark.marks, mark.out_of) == (MARKS * (state == "passed"), MARKS)
    assert words in mark.sentence and bool(mark.sentence) == (state != "passed")
    assert mark.sentence.isprintable() and len(mark.sentence) < 500


@pytest.mark.parametrize(
    ("content", "words"), [(b"\xff\xfe", "cannot be"), (b"#" * 2**21, "1 MiB")]
)
def test_what_is_no_text_is_not_run(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / f"{NAME}.py"
    path.write_bytes(content)
    mark = grade_build(path, NUMBER, seed=3)
    assert mark.state == "missing" and words in mark.sentence


def test_builds_are_found_beside_the_notebooks(tmp_path: Path) -> None:
    for learner in ("ada", "bob", "cy"):
        (tmp_path / learner / "builds").mkdir(parents=True)
    (tmp_path / "ada" / "builds" / f"{NAME}.py").write_text("")
    (tmp_path / "ada" / "deep" / "builds").mkdir(parents=True)
    (tmp_path / "ada" / "deep" / "builds" / f"{NAME}.py").write_text("")
    (tmp_path / "ada" / f"{NAME}.py").write_text("")  # not in a folder `builds`
    (tmp_path / "bob" / "builds" / f"{NAME}.py").symlink_to("/etc/passwd")
    (tmp_path / "bob" / "builds" / "99_none.py").write_text("")
    (tmp_path / "bob" / "builds" / "capstone.py").write_text("")
    (tmp_path / "cy" / "builds" / f"{NAME}.py").mkdir()
    ada, bob, cy = find_submissions(tmp_path, {"12_ppo": 12}, NAMES)
    assert ada.builds == {NUMBER: tmp_path / "ada" / "builds" / f"{NAME}.py"}
    assert ada.problems == [f"{NAME}.py was handed in twice; the first is graded"]
    assert not bob.builds and "is a link" in " ".join(bob.problems)
    assert "capstone.py is verified by `nbkit build capstone` alone" in bob.problems
    assert "builds/99_none.py is named like no build of the book" in bob.problems
    assert not cy.builds and "no file" in cy.problems[0]


def test_the_table_has_a_column_for_builds_only_where_there_are_some() -> None:
    exercise = Mark("ddp.ring.1", "passed", "", 3, 3)
    passed, failed = Mark("build.31", "passed", "", 10, 10), Mark("build.32", "failed", "x", 0, 10)
    plain = [Grade(Submission("ada"), [exercise])]
    assert [column.header for column in as_table(plain).columns][-1] == "exercises"
    grades = [*plain, Grade(Submission("bob", attempts={"build.32": 4}), [passed, failed])]
    table = as_table(grades)
    assert list(table.columns[-1].cells) == ["", "31 ✔, 32 ✘"]
    assert list(table.columns[1].cells) == ["3 of 3", "10 of 20"]
    assert sentences(grades) == ["bob: build.32: x"]
    rows = list(csv.DictReader(io.StringIO(as_csv(grades))))
    assert [row["attempts"] for row in rows] == ["", "", "4"]


@pytest.mark.slow
def test_the_command_grades_builds_of_a_class(tmp_path: Path) -> None:
    room = tmp_path / "class"
    for learner, number in (("ada", "right"), ("bob", "wrong")):
        (room / learner / "builds").mkdir(parents=True)
        (room / learner / "builds" / f"{NAME}.py").write_text(SUBMISSIONS[number][0])
    record = {"attempts": 3, "last_tried": "2026-01-01T00:00:00Z", "last_passed": True}
    kept = {"version": 1, "exercises": {"build.32": record}}
    (room / "ada" / "progress.json").write_text(json.dumps(kept))
    said = Book(ROOT).nbkit("grade", str(room), "--seed", "5", "--output", str(tmp_path))
    assert f"{MARKS} of {MARKS}  1 of 1" in said and "32 ✔" in said and "32 ✘" in said
    assert "bob: build.32: The sum of the losses is not divided" in said
    found = json.loads((tmp_path / "grades.json").read_text())
    (mark,) = found["learners"][0]["exercises"]
    assert (mark["exercise"], mark["state"], mark["attempts"]) == ("build.32", "passed", 3)
    (row, _) = csv.DictReader(io.StringIO((tmp_path / "grades.csv").read_text()))
    assert (row["exercise"], row["marks"], row["attempts"]) == ("build.32", "10", "3")
    said = Book(ROOT).nbkit("grade", str(room), "--no-builds", "--output", str(tmp_path))
    assert "0 of 0" in said
