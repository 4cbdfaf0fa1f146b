"""`nbkit test`: it fails whenever anything does, says what, and ends with the counts."""

import pytest

from bookkit.authoring.jobs import Job, run_jobs
from bookkit.authoring.proof import aged
from bookkit.authoring.suite import choice
from bookkit.authoring.suite.untouched import checked_ids, complaints
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
    # The tests' own package is this checkout's, in whose process they run; so it is another one.
    ini = '[project]\nname = "small-book"\nversion = "0"\n[tool.pytest.ini_options]\n'
    made.write("pyproject.toml", ini + 'pythonpath = ["."]\n')
    made.write("benchmarks/double.py", "def double(x):\n    '''Twice x.'''\n    return 2 * x\n")
    made.write("tests/words.txt", "one two\n")
    made.write(
        "tests/test_one.py",
        "from pathlib import Path\n\nfrom benchmarks.double import double\n\n\n"
        "def test_one():\n    assert double(1) == 2\n\n\n"
        "def test_words():\n"
        '    assert Path(__file__).with_name("words.txt").read_text().split() == ["one", "two"]\n',
    )
    made.nbkit("exercises", "split")
    made.nbkit("execute")
    output = run(made, "--keep", "--all")
    assert last(output) == "7 passed, 0 failed", output
    return made


@pytest.fixture
def whole(whole_once: Book, tmp_path) -> Book:
    import shutil

    return Book(shutil.copytree(whole_once.root, tmp_path / "book"))


KINDS = [f"--only={kind}" for kind in ("unit", "studies", "notebooks", "exercises")]


def run(book: Book, *words: str, status: int = 0) -> str:
    """Run everything but the checks of the tools, in a process of its own."""
    return book.process("test", *KINDS, *words, status=status)


def proven(output: str) -> str:
    """The line that says what was proven, and those below it that say why."""
    lines = output.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("proven now"))
    return "\n".join(lines[first:])


def part_of(book: Book) -> set[str]:
    names = ["tests/test_one.py", "studies/curve.py", "exercises/01_small.ipynb", NOTEBOOK]
    names += ["notebooks/02_other.ipynb", "solutions/01_small.ipynb"]
    return {name for name in names if choice.part_of(name) == 0}


@pytest.mark.slow
def test_a_book_in_order_stands_on_its_proofs_but_for_a_part(whole: Book):
    output = run(whole)
    count = sum(2 if name.startswith("tests") else 1 for name in part_of(whole))
    assert last(output) == f"{count} passed, 0 failed"
    assert "standing on an earlier proof: " in output
    assert "commit unknown, " in output and "numpy" in output
    for name in part_of(whole):
        assert name in output
    everything = run(whole, "--all")
    assert last(everything) == "7 passed, 0 failed"
    assert "1 test file, 1 head of a study, 3 pages, 1 exercise" in everything
    assert "standing on an earlier proof: none" in everything


@pytest.mark.slow
def test_a_chapter_is_a_part_of_it_and_is_run_whatever_stands(whole: Book):
    output = whole.process("test", "--chapter", "2", "--only", "notebooks", "--only", "studies")
    assert last(output) == "1 passed, 0 failed" and CHAPTER not in output
    message = one_sentence(run(whole, "--chapter", "2", "--keep", status=1))
    assert "keep the proofs of a whole run" in message


def edit(book: Book, name: str, old: str, new: str) -> None:
    assert old in book.read(name), name
    book.write(name, book.read(name).replace(old, new))


# Each is an attempt to have something called proven that did not run with this code.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "old", "new", "rerun"),
    [
        ("benchmarks/double.py", "2 * x", "x + x", ["tests/test_one.py"]),
        ("benchmarks/double.py", "def double", "double = 1\n\n\ndef renamed", ["tests/test_one"]),
        ("nbkit/losses.py", "2 * x", "x + x", [NOTEBOOK]),
        (
            "nbkit/__init__.py",
            "def check",
            "import nbkit.losses\n\nnbkit.losses.loss = lambda x: 2 * x\n\n\ndef check",
            [NOTEBOOK, "solutions/01_small.ipynb"],
        ),
        ("tests/words.txt", "one two", "one  two", ["tests/test_one.py"]),
        ("tests/test_one.py", "double(1) == 2", "double(1) >= 0", ["tests/test_one.py"]),
        ("studies/curve.py", "assert", "assert True and", ["studies/curve.py"]),
        ("exercises/01_small.ipynb", "NotImplementedError", "NotImplementedError()", ["exercises"]),
        ("studies/results/curve.json", "[1, 2]", "[1,  2]", [NOTEBOOK]),
        (NOTEBOOK, '"12"', '"13"', [NOTEBOOK]),
        (NOTEBOOK, '"numpy": "', '"numpy": "0.', [NOTEBOOK]),
        ("tests/proofs.json", '"skipped": 0', '"skipped": 1', ["tests/test_one.py"]),
        ("tests/proofs.json", '"numpy": "', '"numpy": "0.', ["tests/test_one.py"]),
        ("tests/proofs.json", '"code": "', '"code": "0', ["tests/test_one.py", "studies/curve"]),
    ],
)
def test_what_changed_is_run_again(
    whole: Book, monkeypatch, name: str, old: str, new: str, rerun: list[str]
):
    # What was skipped for want of a browser is no proof where there has to be one.
    monkeypatch.setenv("NBKIT_REQUIRE_SOMETHING", "1")
    edit(whole, name, old, new)
    chosen = {s.name: s.reason for s in choice.choose(whole.root)}
    for wanted in rerun:
        reasons = [reason for subject, reason in chosen.items() if subject.startswith(wanted)]
        assert reasons and set(reasons) <= {"stale", "old"}, (wanted, chosen)
    left = [n for n, reason in chosen.items() if reason in {"standing", "turn"}]
    assert left, "one edit makes not everything stale"


@pytest.mark.slow
def test_a_conftest_and_a_new_file_in_a_listed_folder_count(whole: Book):
    def reason() -> str:
        found = choice.choose(whole.root, kinds=("unit",))
        return next(s.reason for s in found if s.name == "tests/test_one.py")

    assert reason() in {"standing", "turn"}
    whole.write("tests/conftest.py", "import benchmarks.double\n\nbenchmarks.double.double = abs\n")
    assert reason() == "stale"


@pytest.mark.slow
def test_a_docstring_costs_nothing(whole: Book):
    before = {s.name: s.reason for s in choice.choose(whole.root)}
    edit(whole, "nbkit/losses.py", '"""Losses."""', '"""The losses."""')
    edit(whole, "benchmarks/double.py", "Twice x.", "Two times x.")
    assert {s.name: s.reason for s in choice.choose(whole.root)} == before


@pytest.mark.slow
def test_a_test_that_reads_through_a_child_process_is_seen(whole: Book):
    whole.write(
        "tests/test_two.py",
        "import subprocess, sys\n\n\ndef test_two():\n"
        "    code = \"import importlib; importlib.import_module('nbkit.' + 'unused');\"\n"
        "    code += \"print(open('tests/words.txt').read())\"\n"
        "    subprocess.run([sys.executable, '-c', code], check=True)\n",
    )
    assert last(whole.process("test", "--only", "unit", "--keep")) == "1 passed, 0 failed"

    def reason() -> str:
        found = choice.choose(whole.root, kinds=("unit",))
        return next(s.reason for s in found if s.name == "tests/test_two.py")

    assert reason() in {"standing", "turn"}
    edit(whole, "nbkit/unused.py", "VALUE = 1", "VALUE = 2")
    assert reason() == "stale"
    edit(whole, "nbkit/unused.py", "VALUE = 2", "VALUE = 1")
    assert reason() in {"standing", "turn"}
    edit(whole, "tests/words.txt", "one", "1")
    assert reason() == "stale"


@pytest.mark.slow
def test_a_failure_is_no_proof(whole: Book):
    edit(whole, "tests/test_one.py", "double(1) == 2", "double(1) == 3")
    before = whole.read("tests/proofs.json")
    output = run(whole, "--keep", status=1)
    assert "assert 2 == 3" in output and "failed: tests/test_one.py, stale (its code)" in output
    import json

    old, new = (
        json.loads(text)["tests/test_one.py"] for text in (before, whole.read("tests/proofs.json"))
    )
    assert old == new
    assert last(output).endswith(" passed, 1 failed")


@pytest.mark.slow
def test_the_generators_are_checked(whole: Book):
    whole.write("nbkit/losses.py", "def loss(x):\n    return 3 * x\n")
    whole.edit_notebook("exercises/01_small.ipynb", "raise NotImplementedError", "return 1  #")
    whole.write("book/page.md", "A color.\n")
    output = whole.process("test", "--only", "checks", status=1)
    assert "FAILED pyproject.toml::nbkit stamp --check" in output
    assert "nbkit.losses.loss changed" in output
    assert "FAILED pyproject.toml::nbkit exercises split --check" in output
    assert "FAILED pyproject.toml::nbkit lint-prose" in output and "American spelling" in output
    assert "FAILED pyproject.toml::nbkit tangle --check" not in output
    assert last(output).endswith(" failed") and not last(output).endswith(" 0 failed")


@pytest.mark.slow
def test_a_failing_cell_fails_and_its_log_is_shown(whole: Book):
    whole.edit_notebook(NOTEBOOK, "twice(3)", "twice(1 / 0)")
    output = whole.process("test", "--chapter", "1", "--only", "notebooks", status=1)
    assert f"FAILED {NOTEBOOK}::" in output and "ZeroDivisionError" in output
    assert last(output) == "1 passed, 1 failed"


@pytest.mark.slow
def test_a_key_figure_that_moved_fails(whole: Book):
    source = (REPOSITORY / "bookkit/authoring/record.py").read_text()
    whole.write("nbkit/record.py", source)
    page = "notebooks/03_record.md"
    whole.page(page, code("from nbkit.record import record\n\nrecord('rate', 0.5, 0.1)"))
    whole.nbkit("execute", page)
    arguments = ("test", "--chapter", "3", "--only", "notebooks")
    assert last(whole.process(*arguments)).startswith("1 passed")
    notebook = page.replace(".md", ".ipynb")
    whole.write(notebook, whole.read(notebook).replace('"value": 0.5', '"value": 0.9'))
    output = whole.process(*arguments, status=1)
    assert "0.5 now, 0.9 stored in 03_record.ipynb" in output


@pytest.mark.slow
def test_a_wrong_solution_fails_strictly(whole: Book):
    whole.edit_notebook("solutions/01_small.ipynb", "return 2 * x", "return 3 * x")
    output = whole.process("test", "--chapter", "1", "--only", "notebooks", status=1)
    assert "FAILED solutions/01_small.ipynb::" in output and "AssertionError" in output


@pytest.mark.slow
def test_an_exercise_that_does_not_fail_as_expected_fails(whole: Book):
    name = "exercises/01_small.ipynb"
    whole.edit_notebook(name, "raise NotImplementedError", "return 3 * x  #")
    output = whole.process("test", "--chapter", "1", "--only", "exercises", status=1)
    assert f"FAILED {name}::as a learner finds it" in output
    assert "should raise NotImplementedError, but it runs" in output
    assert "should report that it is not implemented yet, but says" in output


@pytest.mark.slow
def test_a_failing_study_and_a_file_that_cannot_be_imported_fail(whole: Book):
    whole.write("tests/test_two.py", "import nbkit.nothing\n")
    whole.write("studies/curve.py", "raise SystemExit('it moved')\n")
    output = whole.process("test", "--only", "unit", "--only", "studies", status=1)
    assert "No module named 'nbkit.nothing'" in output and "it moved" in output
    assert last(output).endswith(" passed, 2 failed")


@pytest.mark.slow
def test_a_test_that_ends_its_process_fails_once_and_the_others_are_run(whole: Book):
    """Alone in its group, first and last of a file, and as the last test that there is."""
    dies = "import os\n\n\ndef test_{}():\n    os._exit(1)\n"
    stands = "def test_{}():\n    assert True\n"
    for i, functions in enumerate(([dies, stands], [stands, stands, dies], [dies], [stands])):
        text = "\n\n".join(f.format(f"n{n}") for n, f in enumerate(functions))
        whole.write(f"tests/test_dies_{i}.py", text)
    output = whole.process("test", "--only", "unit", status=1)
    # The six of these files that stand or fall, and those of the small book that were due.
    assert last(output).endswith(" passed, 3 failed")
    for name in ("0.py::test_n0", "1.py::test_n2", "2.py::test_n0"):
        assert f"tests/test_dies_{name}" in output
    assert int(last(output).split()[0]) >= 4


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


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 6, 8, 16])
def test_every_part_has_its_turn_in_as_many_landings(step: int):
    turns = {(100 + step * landing) % choice.PARTS for landing in range(choice.PARTS)}
    assert turns == set(range(choice.PARTS))


def test_the_parts_share_everything_out():
    names = [f"tests/test_{number}.py" for number in range(400)]
    counts = [sum(choice.part_of(name) == part for name in names) for part in range(choice.PARTS)]
    assert sum(counts) == 400 and min(counts) > 20


@pytest.mark.parametrize(
    ("then", "now", "old"),
    [
        ({"torch": "2.13.0+cpu"}, {"torch": "2.13.0+cu130"}, False),
        ({"torch": "2.13.0+cpu"}, {"torch": "2.14.0+cpu"}, True),
        ({"torch": "2.13.0", "numpy": "2.4.6"}, {"torch": "2.13.0", "numpy": "2.5.0"}, True),
        ({"torch": "2.13.0"}, {"torch": "2.13.0", "transformers": "5.24.0"}, True),
        ({"torch": "2.13.0", "python": "3.11"}, {"torch": "2.13.0", "python": "3.12"}, False),
    ],
)
def test_another_version_makes_a_proof_old(then: dict, now: dict, old: bool):
    assert bool(aged(then, now)) == old


@pytest.mark.parametrize(
    ("source", "ids"),
    [
        ('nbkit.check("a.b.1", f)', ["a.b.1"]),
        ('%time nbkit.check("a", f)\nx = check("b", lambda: f)', ["a", "b"]),
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
