"""Tangling: the cluster runs the chapter's own code, and a hand's edit is found."""

import subprocess
import sys

import pytest

from tests.authoring.book import Book, code, one_sentence

PAGE = "notebooks/05_job.md"
SCRIPT = "cluster_scripts/tiny/train.py"
CONFIG = "@dataclass\nclass Config:\n    '''Settings.'''\n\n    steps: int = 2"
MAIN = "def main(config):\n    '''Train.'''\n    print('steps:', total(config.steps), math.pi > 3)"
TOTAL = "def total(steps):\n    '''Add up.'''\n    return sum(range(steps + 1))"


def job(cell: str) -> str:
    return code(cell, "tangle").replace(":tags:", ":job: tiny\n:tags:")


@pytest.fixture
def tangled(book: Book) -> Book:
    imports = "import json\nimport math\nfrom dataclasses import dataclass"
    parts = [job(imports), job(CONFIG), job(TOTAL), job(MAIN), code("main(Config(steps=1))")]
    book.page(PAGE, "# A job\n\n" + "\n".join(parts))
    book.nbkit("tangle")
    return book


def test_the_script_runs_with_defaults_and_with_a_file(tangled: Book):
    def run(*arguments: str) -> str:
        command = [sys.executable, SCRIPT, *arguments]
        return subprocess.run(
            command, cwd=tangled.root, check=True, capture_output=True, text=True
        ).stdout

    assert run() == "steps: 3 True\n"
    tangled.write("config.yaml", "steps: 4\n")
    assert run("config.yaml") == "steps: 10 True\n"
    text = tangled.read(SCRIPT)
    assert "import json" not in text, "unused imports of the chapter do not belong to the script"
    assert "Config(steps=1)" not in text, "only tagged cells do"
    assert PAGE in text
    tangled.nbkit("tangle", "--check")


def test_drift_is_found_and_mended(tangled: Book):
    tangled.write(PAGE, tangled.read(PAGE).replace("steps: int = 2", "steps: int = 3"))
    output = tangled.nbkit("tangle", "--check", status=1)
    assert f"{SCRIPT}: is not what {PAGE} gives now; run `nbkit tangle`" in output
    tangled.nbkit("tangle")
    tangled.nbkit("tangle", "--check")


def test_an_edit_by_hand_is_found_and_kept(tangled: Book):
    tangled.write(SCRIPT, tangled.read(SCRIPT).replace("steps: int = 2", "steps: int = 9"))
    edited = tangled.read(SCRIPT)
    output = tangled.nbkit("tangle", "--check", status=1)
    assert f"{SCRIPT}: was edited by hand" in output
    assert f"take the edit into {PAGE}" in one_sentence(tangled.nbkit("tangle", status=1))
    assert tangled.read(SCRIPT) == edited


def test_a_missing_script_and_one_without_chapter_are_named(tangled: Book):
    (tangled.root / "cluster_scripts/tiny").rename(tangled.root / "cluster_scripts/old")
    output = tangled.nbkit("tangle", "--check", status=1)
    assert f"{SCRIPT}: does not exist, though {PAGE} has its cells" in output
    assert "cluster_scripts/old/train.py: no chapter has cells" in output


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([CONFIG], "define no function `main(config)`"),
        ([MAIN], "define no class `Config`"),
        ([CONFIG, TOTAL, "def main():\n    pass"], "define no function `main(config)`"),
        ([CONFIG, MAIN], "Undefined name"),
        ([CONFIG, TOTAL, MAIN, "%time 1"], "holds a line of IPython magic"),
        (["def main(:"], "is not Python"),
    ],
)
def test_cells_that_make_no_script_are_refused(book: Book, cells: list[str], message: str):
    book.page(PAGE, "\n".join(job(cell) for cell in cells))
    assert message in one_sentence(book.nbkit("tangle", status=1))


def test_a_cell_without_a_job_and_a_job_on_two_pages_are_refused(book: Book):
    book.page(PAGE, code(CONFIG, "tangle"))
    assert "its job is None; give it `:job: NAME`" in one_sentence(book.nbkit("tangle", status=1))
    whole = job("import math\nfrom dataclasses import dataclass") + job(CONFIG) + job(TOTAL)
    for page in (PAGE, "notebooks/06_again.md"):
        book.page(page, (whole + job(MAIN)).replace("```\n```", "```\n\n```"))
    assert "is tangled from notebooks/05_job.md already" in one_sentence(
        book.nbkit("tangle", status=1)
    )
