"""A check and its solution page make an exercise: what each gives, and what is refused."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import nbkit
from bookkit.exercises import registry
from bookkit.exercises.exercise import Check, Edit, Exercise, Mutant, Output, edit, edits
from bookkit.exercises.registry import ChecksMissing, all_exercises, get_exercise
from bookkit.exercises.solution import BadSolution, Section, sections_of, solve

ROOT = Path(__file__).parents[2]
PAGE = '''
```{code-cell} ipython3
import math
from operator import mul

SCALE, other = 2, None
```

## Doubling

`small.double.1` · difficulty 2 of 5 · 15 minutes

```{code-cell} ipython3
%timeit 1
```

```{code-cell} ipython3
:tags: [solution]
def double(x):
    """Twice x,
    and no more.

    A number  ->  a number.
    """
    return mul(x, SCALE) + 0
```

```{code-cell} ipython3
:tags: [try-it]
math = None
```

```{code-cell} ipython3
nbkit.check("small.double.1", double)
```
'''


def section(page: str = PAGE) -> Section:
    (found,) = sections_of(page)
    return found


def exercise(*mutants: Edit | Mutant, page: str = PAGE) -> Exercise:
    check: dict[str, Any] = {"cases": None, "edges": None, "oracle": None, "not_tested": "speed."}
    made = Check(id="small.double.1", outputs=(Output("y", "()"),), mutants=mutants, **check)
    return solve(made, section(page), 7)


def test_a_page_gives_what_is_said_of_an_exercise() -> None:
    made = exercise()
    assert (made.id, made.title, made.chapter) == ("small.double.1", "Doubling", 7)
    assert (made.difficulty, made.minutes) == (2, 15)
    assert made.goal == "Twice x, and no more."
    assert made.reference(21) == 42


def test_an_edit_is_the_solution_with_another_text() -> None:
    made = exercise(
        edit("plus one", "+ 0", "+ 1", "one too many"),
        edits("square", ("mul(x, SCALE)", "x"), ("x + 0", "mul(x, x)"), message="squared"),
        edit("a name of the page", "mul(x, SCALE)", "math.floor(x)", "rounded"),
        Mutant("by hand", lambda x: 7, "always seven"),
    )
    assert [mutant.function(5) for mutant in made.mutants] == [11, 25, 5, 7]
    assert [mutant.message for mutant in made.mutants][:2] == ["one too many", "squared"]
    assert made.reference(5) == 10


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("nowhere", "x", "must stand exactly once in the solution, and stands there 0 times"),
        ("x", "y", "must stand exactly once in the solution, and stands there 3 times"),
        ("+ 0", "+  0", "is the solution: edit what it does, not how it is written"),
        ("Twice", "Thrice", "is the solution: edit what it does"),
        ("+ 0", "+ unknown", "uses 'unknown', which no cell above binds"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(old: str, new: str, words: str) -> None:
    with pytest.raises(BadSolution, match=r"small\.double\.1") as caught:
        exercise(edit("bad", old, new, "a message"))
    assert words in str(caught.value)


@pytest.mark.parametrize("gone", [":tags: [solution]\n", 'nbkit.check("small.double.1", double)'])
def test_a_section_without_solution_or_check_is_refused(gone: str) -> None:
    with pytest.raises(BadSolution, match=r"the section of small\.double\.1 .* write it there"):
        section(PAGE.replace(gone, ""))


def test_a_check_is_named_and_placed_by_its_id() -> None:
    for made in all_exercises().values():
        name = f"{made.id.replace('.', '_')}.py"
        assert (ROOT / "exercises/checks" / f"{made.chapter:02d}" / name).is_file()


def test_an_edited_check_is_another_exercise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book(tmp_path, monkeypatch)
    first = get_exercise("small.double.1")
    assert get_exercise("small.double.1") is first
    path = tmp_path / "exercises/checks/07/small_double_1.py"
    path.write_text(path.read_text().replace("speed.", "haste."))
    assert get_exercise("small.double.1").not_tested == "haste."


def test_a_check_without_a_section_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = book(tmp_path, monkeypatch)
    assert list(all_exercises()) == ["small.double.1"]
    (checks / "small_halve_1.py").write_text((checks / "small_double_1.py").read_text())
    with pytest.raises(BadSolution, match=r"small_halve_1\.py checks an exercise that no solution"):
        all_exercises()


def book(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A book of one exercise, as the one that the package belongs to; the folder of its check."""
    checks = root / "exercises/checks/07"
    checks.mkdir(parents=True)
    (root / "solutions").mkdir()
    (root / "solutions/07_small.md").write_text(PAGE)
    (checks / "small_double_1.py").write_text(
        "from bookkit.exercises.exercise import Check\n"
        "CHECK = Check(id='small.double.1', outputs=(), cases=None, edges=None, oracle=None,\n"
        "              mutants=(), not_tested='speed.')\n"
    )
    monkeypatch.setattr(registry.nbkit, "__file__", str(root / "nbkit/__init__.py"))
    return checks


def test_only_the_checks_chapter_is_loaded() -> None:
    code = (
        "import sys; from bookkit.exercises.registry import get_exercise\n"
        "get_exercise('score.ess.1')\n"
        "print([name for name in sys.modules if name.startswith('exercises.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['exercises.checks.01.score_ess_1']"


def test_without_the_book_one_sentence_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry.nbkit, "__file__", str(tmp_path / "nbkit/__init__.py"))
    with pytest.raises(ChecksMissing, match=r"come with the book, .* `pip install -e") as caught:
        nbkit.check("reinforce.mask.1", lambda: None)
    assert "\n" not in str(caught.value)
