"""`nbkit test`: it fails whenever anything does, says what, and ends with the counts."""

import io

import pytest

from nbkit.authoring.jobs import Job, Outcome, run_jobs
from nbkit.authoring.suite import items as suite_items
from nbkit.authoring.suite.run import _summary
from nbkit.authoring.suite.untouched import checked_ids, complaints
from tests.authoring.book import REPOSITORY, Book, code, one_sentence
from tests.authoring.conftest import CHAPTER, NOTEBOOK

# The longest of these runs a small book's whole suite; a busy machine needs its time.
pytestmark = pytest.mark.timeout(900)
CHECK = """
def check(name, function):
    try:
        right = function(3) == 6
        print(f"✔ {name} passed" if right else f"✘ {name}: not right yet")
    except NotImplementedError:
        right = False
        print(f"○ {name}: not implemented yet")
    import os
    if os.environ.get("NBKIT_STRICT") == "1":
        assert right
"""
SOLUTION = "\n".join(
    [
        "# Doubling\n",
        code("import nbkit"),
        code("def double(x):\n    '''Twice x.'''\n    return 2 * x", "solution"),
        code("double(1)", "try-it"),
        code('nbkit.check("small.double.1", double)'),
    ]
).replace("```\n```", "```\n\n```")


def last(output: str) -> str:
    return output.rstrip().splitlines()[-1]


@pytest.fixture(scope="module")
def whole_once(tmp_path_factory: pytest.TempPathFactory) -> Book:
    from tests.authoring.conftest import make_book

    made = make_book(tmp_path_factory.mktemp("whole") / "book")
    made.write("nbkit/__init__.py", CHECK)
    made.page("solutions/01_small.md", SOLUTION, title="Solutions: small")
    made.page("notebooks/02_other.md", code("1 + 1"))
    made.write("studies/curve.py", 'import sys\n\nassert sys.argv[1] == "--check"\n')
    made.write("tests/test_one.py", "def test_one():\n    assert 1 + 1 == 2\n")
    made.nbkit("exercises", "split")
    made.nbkit("execute")
    return made


@pytest.fixture
def whole(whole_once: Book, tmp_path) -> Book:
    import shutil

    return Book(shutil.copytree(whole_once.root, tmp_path / "book"))


@pytest.mark.slow
def test_a_book_in_order_passes_and_a_chapter_is_a_part_of_it(whole: Book):
    kinds = ["--only", "unit", "--only", "notebooks", "--only", "exercises", "--only", "studies"]
    output = whole.nbkit("test", *kinds)
    for name in (CHAPTER, "notebooks/02_other.md", "solutions/01_small.md"):
        assert f"✓ {name.replace('.md', '.ipynb')}, " in output
    assert "✓ exercises/01_small.ipynb, " in output
    assert "✓ studies/curve.py --check, " in output
    assert "seconds" in output and "two side by side" in output
    assert last(output) == "6 passed, 0 failed"
    output = whole.nbkit("test", "--chapter", "2", "--only", "notebooks", "--only", "studies")
    assert last(output) == "1 passed, 0 failed" and CHAPTER not in output


@pytest.mark.slow
def test_the_generators_are_checked(whole: Book):
    whole.write("nbkit/losses.py", "def loss(x):\n    return 2 * x\n")
    whole.edit_notebook("exercises/01_small.ipynb", "raise NotImplementedError", "return 1  #")
    whole.write("book/page.md", "A color.\n")
    output = whole.nbkit("test", "--only", "checks", status=1)
    assert "✗ nbkit stamp --check, " in output and "nbkit.losses changed" in output
    assert "✗ nbkit exercises split --check, " in output and "was edited" in output
    assert "✗ nbkit lint-prose, " in output and "American spelling" in output
    assert "✓ nbkit tangle --check, " in output
    assert last(output).endswith(" failed") and not last(output).endswith(" 0 failed")


@pytest.mark.slow
def test_a_failing_cell_fails_and_its_log_is_shown(whole: Book):
    whole.edit_notebook(NOTEBOOK, "twice(3)", "twice(1 / 0)")
    output = whole.nbkit("test", "--chapter", "1", "--only", "notebooks", status=1)
    assert f"✗ {NOTEBOOK}, " in output and "ZeroDivisionError" in output
    assert f"failed: {NOTEBOOK}" in output
    assert last(output) == "1 passed, 1 failed"


@pytest.mark.slow
def test_a_key_figure_that_moved_fails(whole: Book):
    source = (REPOSITORY / "nbkit/authoring/record.py").read_text()
    whole.write("nbkit/record.py", source)
    page = "notebooks/03_record.md"
    whole.page(page, code("from nbkit.record import record\n\nrecord('rate', 0.5, 0.1)"))
    whole.nbkit("execute", page)
    assert last(whole.nbkit("test", "--chapter", "3", "--only", "notebooks")).startswith("1 passed")
    notebook = page.replace(".md", ".ipynb")
    whole.write(notebook, whole.read(notebook).replace('"value": 0.5', '"value": 0.9'))
    output = whole.nbkit("test", "--chapter", "3", "--only", "notebooks", status=1)
    assert "0.5 now, 0.9 stored in 03_record.ipynb" in output


@pytest.mark.slow
def test_a_wrong_solution_fails_strictly(whole: Book):
    whole.edit_notebook("solutions/01_small.ipynb", "return 2 * x", "return 3 * x")
    output = whole.nbkit("test", "--chapter", "1", "--only", "notebooks", status=1)
    assert "✗ solutions/01_small.ipynb, " in output and "AssertionError" in output


@pytest.mark.slow
def test_an_exercise_that_does_not_fail_as_expected_fails(whole: Book):
    name = "exercises/01_small.ipynb"
    whole.edit_notebook(name, "raise NotImplementedError", "return 3 * x  #")
    output = whole.nbkit("test", "--chapter", "1", "--only", "exercises", status=1)
    assert f"✗ {name}, " in output
    assert "should raise NotImplementedError, but it runs" in output
    assert "should report that it is not implemented yet, but says" in output


@pytest.mark.slow
def test_a_failing_unit_test_and_a_failing_study_fail(whole: Book):
    whole.write("tests/test_two.py", "def test_two():\n    assert 1 + 1 == 3\n")
    whole.write("studies/curve.py", "raise SystemExit('it moved')\n")
    output = whole.nbkit("test", "--only", "unit", "--only", "studies", status=1)
    assert "assert (1 + 1) == 3" in output and "it moved" in output
    assert last(output) == "1 passed, 2 failed"


@pytest.mark.slow
def test_nothing_to_run_and_an_unknown_kind_are_one_sentence(whole: Book):
    message = one_sentence(whole.nbkit("test", "--chapter", "99", "--only", "notebooks", status=1))
    assert message.startswith("there is no chapter 99; the chapters are: 1, 2")
    assert "there is no kind 'all'" in one_sentence(whole.nbkit("test", "--only", "all", status=1))


@pytest.mark.slow
def test_studies_are_run_by_name(whole: Book):
    whole.write(
        "studies/curve.py",
        "import os, sys\nfrom pathlib import Path\n\n"
        "Path(sys.argv[2]).write_text(os.environ['OMP_NUM_THREADS'])\n",
    )
    assert "studies/results/curve.json: written" in whole.nbkit("study", "curve")
    assert whole.read("studies/results/curve.json") == "1"
    message = one_sentence(whole.nbkit("study", "curves", status=1))
    assert message == "there is no study 'curves'; the studies are: curve"
    whole.write("outside.py", "")
    message = one_sentence(whole.nbkit("study", "../outside", status=1))
    assert message == "there is no study '../outside'; the studies are: curve"
    whole.write("studies/curve.py", "raise SystemExit(3)\n")
    assert "exit status 3" in one_sentence(whole.nbkit("study", "curve", "--check", status=1))


def test_a_run_over_the_limit_fails():
    from rich.console import Console

    text = io.StringIO()
    console = Console(file=text, width=110)
    verdict = suite_items.Verdict(
        suite_items.Item("checks", Job("x", ["x"], REPOSITORY)), 1, 0, 5.0, "", ""
    )
    assert not _summary(console, [verdict], seconds=11.0, limit_seconds=10.0)
    assert last(text.getvalue()) == "1 passed, 1 failed"
    assert _summary(console, [verdict], seconds=9.0, limit_seconds=10.0)
    assert last(text.getvalue()) == "1 passed, 0 failed"


def outcome(status: int, seconds: float = 1.0) -> Outcome:
    return Outcome(Job("x", ["x"], REPOSITORY), status, seconds, "")


def test_a_pytest_run_without_tests_fails_unless_it_may_be_empty(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text('<testsuites><testsuite tests="0" failures="0" errors="0"/></testsuites>')
    job = Job("x", ["x"], REPOSITORY)
    item = suite_items.Item("notebooks", job, report)
    assert suite_items.judge(item, outcome(5)).failed == 1
    item = suite_items.Item("unit", job, report, may_be_empty=True)
    assert suite_items.judge(item, outcome(5)).failed == 0


def test_a_pytest_run_that_crashed_fails(tmp_path):
    item = suite_items.Item("unit", Job("x", ["x"], REPOSITORY), tmp_path / "none.xml")
    verdict = suite_items.judge(item, outcome(3))
    assert (verdict.failed, verdict.remark) == (1, "pytest wrote no report")


def test_counts_of_a_report(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text('<testsuite tests="9" failures="2" errors="1" skipped="3"/>')
    item = suite_items.Item("unit", Job("x", ["x"], REPOSITORY), report)
    verdict = suite_items.judge(item, outcome(1))
    assert (verdict.passed, verdict.failed, verdict.remark) == (3, 3, "3 skipped")


def test_a_chapter_over_its_time_is_remarked(tmp_path):
    report = tmp_path / "report.xml"
    item = suite_items.Item("notebooks", Job("x", ["x"], REPOSITORY), report, False, 120)

    def remark(seconds: float, whole: float) -> str:
        case = f'<testcase time="{seconds}"/>'
        report.write_text(f'<testsuite tests="1" failures="0" errors="0">{case}</testsuite>')
        return suite_items.judge(item, outcome(0, whole)).remark

    assert remark(121, 130) == "121 s live, over its 120 s"
    assert remark(119, 130) == ""


@pytest.mark.parametrize(
    ("source", "ids"),
    [
        ('nbkit.check("a.b.1", f)', ["a.b.1"]),
        ('%time nbkit.check("a", f)\nx = check("b", lambda: f)', ["b"]),
        ("nbkit.check(name, f)", []),
        ("other.check('a', f)", []),
        ("not python", []),
    ],
)
def test_checked_ids(source: str, ids: list[str]):
    assert checked_ids(source) == ids


def cell(source: str, *outputs: dict, tags: tuple[str, ...] = ()) -> dict:
    return {"source": source, "outputs": list(outputs), "metadata": {"tags": list(tags)}}


def raised(name: str) -> dict:
    return {"output_type": "error", "ename": name, "evalue": "no"}


def shown(text: str) -> dict:
    return {"output_type": "display_data", "data": {"text/plain": text}}


RIGHT = cell('nbkit.check("a.1", f)', shown("○ a.1: not implemented yet\n  Goal: x"))


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([RIGHT], None),
        ([RIGHT, cell("f(1)", raised("NotImplementedError"), tags=("try-it",))], None),
        ([RIGHT, cell("f(1)", tags=("try-it",))], "but it runs"),
        ([RIGHT, cell("f(1)", raised("NameError"), tags=("try-it",))], "but it raises NameError"),
        ([RIGHT, cell("f(1)", raised("NotImplementedError"))], "should run, but raises"),
        ([cell('nbkit.check("a.1", f)', shown("✔ a.1 passed"))], "but says '✔ a.1 passed'"),
        ([cell('nbkit.check("a.1", f)', raised("ValueError"))], "the check raises ValueError"),
        ([cell('nbkit.check("a.1", f)')], "but says ''"),
        ([cell("1 + 1")], "no cell with a check"),
    ],
)
def test_complaints_about_an_untouched_exercise(cells: list[dict], words: str | None):
    found = complaints(cells)
    if words is None:
        assert found == []
    else:
        assert any(words in complaint for complaint in found), found


def test_jobs_run_side_by_side_except_the_exclusive(tmp_path):
    script = (
        "import sys, time, pathlib; p = pathlib.Path(sys.argv[1]); p.touch(); time.sleep(0.3);"
        "print(len(list(p.parent.iterdir()))); p.unlink()"
    )
    import sys

    jobs = [
        Job(name, [sys.executable, "-c", script, str(tmp_path / name)], tmp_path, exclusive=alone)
        for name, alone in [("a", False), ("b", False), ("alone", True)]
    ]
    outcomes = run_jobs(jobs, 2)
    assert [o.job.name for o in outcomes] == ["a", "b", "alone"]
    assert [o.log for o in outcomes][2] == "1\n"
    assert "2\n" in [o.log for o in outcomes[:2]]


def test_a_job_over_its_limit_is_ended_with_its_children(tmp_path):
    import sys
    import time

    script = "import subprocess, sys; subprocess.run(['sleep', '60'])"
    began = time.monotonic()
    [done] = run_jobs([Job("slow", [sys.executable, "-c", script], tmp_path, limit_seconds=0.5)], 1)
    assert time.monotonic() - began < 10
    assert done.timed_out and not done.passed
    assert "ended after its limit" in done.log


def test_an_interruption_ends_every_job(tmp_path):
    import sys

    def interrupt(job: Job, line: str) -> None:
        raise KeyboardInterrupt

    mark = tmp_path / "mark"
    script = f"import time; print('go', flush=True); time.sleep(3); open({str(mark)!r}, 'w')"
    with pytest.raises(KeyboardInterrupt):
        run_jobs([Job("x", [sys.executable, "-c", script], tmp_path)], 1, on_line=interrupt)
    import time

    time.sleep(3.5)
    assert not mark.exists()
