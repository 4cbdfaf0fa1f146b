"""What a test run keeps as a proof: only what ran whole, with the code that stands there now."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bookkit.authoring.draws import hook_environment
from bookkit.authoring.proof import commit_count
from bookkit.authoring.suite.choice import Subject
from bookkit.authoring.suite.ledger import LEDGER, read_ledger
from bookkit.authoring.suite.observe import FOLDER_VARIABLE, ROOT_VARIABLE, observed_of
from bookkit.authoring.suite.report import Tally, keep, summary
from nbkit.errors import UserError
from tests.authoring.book import Book
from tests.authoring.conftest import make_book

NAME = "tests/test_one.py"
IDS = {f"{NAME}::test_{n}" for n in ("a", "b")}


@pytest.fixture
def small(tmp_path: Path) -> Book:
    book = make_book(tmp_path / "book")
    book.write(NAME, "from nbkit.losses import loss\n\n\ndef test_a():\n    assert loss(1) == 2\n")
    return book


def kept(book: Book, tally: Tally, began: float) -> tuple[list[str], list[str]]:
    subjects = {NAME: Subject(NAME, "unit", "new")}
    return keep(book.root, subjects, {NAME: tally}, book.root / "notes", began)


def later() -> float:
    return time.time() + 1


def test_a_whole_run_is_a_proof(small: Book):
    assert kept(small, Tally(passed=2, collected=IDS, ended=IDS), later()) == ([NAME], [])
    assert list(read_ledger(small.root)) == [NAME]


@pytest.mark.parametrize(
    "tally",
    [
        Tally(passed=1, collected=IDS, ended=set(sorted(IDS)[:1])),
        Tally(passed=2, failed=1, collected=IDS, ended=IDS),
        Tally(skipped=2, collected=IDS, ended=IDS),
        Tally(collected=IDS),
    ],
    ids=["broken off", "failed", "skipped", "never begun"],
)
def test_a_part_is_none(small: Book, tally: Tally):
    assert kept(small, tally, later()) == ([], [])
    assert read_ledger(small.root) == {}


def test_a_run_that_was_broken_off_is_told(small: Book):
    subjects = {NAME: Subject(NAME, "unit", "new")}
    tally = Tally(passed=1, collected=IDS, ended=set(sorted(IDS)[:1]))
    lines = summary(subjects, {NAME: tally}, [], whole=True)
    assert f"not run to their end: {NAME}" in lines
    assert "proven now: no file of the book" in lines


@pytest.mark.parametrize("edited", [NAME, "nbkit/losses.py", "tests/conftest.py"])
def test_what_was_edited_during_the_run_is_not_what_ran(small: Book, edited: str):
    small.write("tests/conftest.py", "")
    began = later()
    os.utime(small.root / edited, (began + 1, began + 1))
    assert kept(small, Tally(passed=2, collected=IDS, ended=IDS), began) == ([], [NAME])
    assert read_ledger(small.root) == {}


def test_a_merge_that_went_wrong_is_one_sentence(small: Book):
    for text in ("<<<<<<< ours\n{}", f'{{"{NAME}": {{"code": "1"}}}}', "[]"):
        small.write(LEDGER, text)
        with pytest.raises(UserError, match=r"tests/proofs.json cannot be read .*KEEP=1"):
            read_ledger(small.root)


def observed(book: Book, code: str, subjects: tuple[str, ...] = ("one",)) -> list[list[str]]:
    """Run a program in the book, and read what was noted for each subject."""
    notes = book.root.parent / "notes"
    for subject in subjects:
        (notes / subject).mkdir(parents=True)
    given = {FOLDER_VARIABLE: str(notes / subjects[0]), ROOT_VARIABLE: str(book.root)}
    environment = hook_environment({**os.environ, "PYTHONPATH": str(book.root)}) | given
    code = f"import os\nNOTES = {str(notes)!r}\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=book.root, env={**os.environ, **environment}, check=False
    )
    assert done.returncode == 0
    found = [observed_of(notes, subject, set()) for subject in subjects]
    return [[*one.reads, *one.modules] for one in found]


def test_a_module_in_memory_counts_for_the_next_one_that_asks_for_it(small: Book):
    code = "from importlib import import_module\nimport_module('nbkit.' + 'losses')\n"
    code += f"os.environ[{FOLDER_VARIABLE!r}] = NOTES + '/two'\nimport_module('nbkit.' + 'losses')"
    one, two = observed(small, code, ("one", "two"))
    assert "nbkit.losses" in one and two == ["nbkit.losses"]


def test_what_is_read_before_it_is_written_was_there_before(small: Book):
    small.write("tests/words.txt", "one")
    code = "open('tests/words.txt').read()\nopen('tests/words.txt', 'a').write(' two')\n"
    code += "open('tests/new.txt', 'w').write('x')\nopen('tests/new.txt').read()"
    assert observed(small, code) == [["tests/words.txt"]]


def test_a_program_that_is_no_python_is_known_by_its_command_line(small: Book):
    small.write("tests/say.sh", "echo $1\n")
    code = "import subprocess\nsubprocess.run(['sh', 'say.sh', 'x'], cwd='tests', check=True)\n"
    code += "subprocess.run('cat  tests/../studies/results/curve.json', shell=True, check=True)"
    assert observed(small, code) == [["studies/results/curve.json", "tests/say.sh"]]


def test_a_shallow_clone_has_its_turns_too(tmp_path: Path):
    def git(*words: str, folder: Path) -> None:
        who = ("-c", "user.name=n", "-c", "user.email=e@e")
        subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)

    whole = tmp_path / "whole"
    whole.mkdir()
    git("init", folder=whole)
    turns = []
    for number in range(4):
        git("commit", "--allow-empty", "-m", str(number), folder=whole)
        assert commit_count(whole) == number + 1
        clone = tmp_path / f"clone_{number}"
        git("clone", "--depth", "1", f"file://{whole}", str(clone), folder=tmp_path)
        turns.append(commit_count(clone))
    assert len(set(turns)) == 4


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_options_of_the_shell_and_fixtures_asked_for_late(small: Book, monkeypatch):
    small.write(
        "tests/conftest.py",
        "from pathlib import Path\n\nimport pytest\n\n\n@pytest.fixture(scope='session')\n"
        "def words():\n    return Path(__file__).with_name('words.txt').read_text()\n",
    )
    small.write("tests/words.txt", "one")
    small.write(NAME, "def test_a(words):\n    assert words\n\n\ndef test_b():\n    assert True\n")
    late = "def test_late(request):\n    assert request.getfixturevalue('words')\n"
    small.write("tests/test_two.py", late)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k test_a")
    output = small.process("test", "--only", "unit", "--keep")
    assert output.rstrip().endswith("3 passed, 0 failed"), output
    proofs = read_ledger(small.root)
    assert {name: proof.passed for name, proof in proofs.items()} == {
        NAME: 2,
        "tests/test_two.py": 1,
    }
    for proof in proofs.values():
        assert "tests/words.txt" in proof.observed.reads
