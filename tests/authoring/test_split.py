"""Cutting exercises: what a stub keeps, and that a learner's work is never overwritten."""

import textwrap

import pytest

from bookkit.authoring.stubs import stub_of
from nbkit.errors import UserError
from tests.authoring.book import Book, code, one_sentence

SOLUTION = "solutions/01_small.md"
EXERCISE = "exercises/01_small.ipynb"


def d(text: str) -> str:
    return textwrap.dedent(text).strip()


@pytest.mark.parametrize(
    ("solution", "stub"),
    [
        (
            """
            def returns(rewards: list[float], gamma: float = 0.9) -> list[float]:
                \"\"\"Discounted returns, (T,).\"\"\"
                total = 0.0  # from the end
                return []
            """,
            """
            def returns(rewards: list[float], gamma: float = 0.9) -> list[float]:
                \"\"\"Discounted returns, (T,).\"\"\"
                raise NotImplementedError("returns is to be written")
            """,
        ),
        (
            """
            import math

            LIMIT = 3


            @cache
            def f(
                x: dict[str, int],
                key=lambda item: item[0],
            ) -> int:
                # the trick is here
                return 2
                # and here


            # kept
            def g(x): return x
            """,
            """
            import math

            LIMIT = 3


            @cache
            def f(
                x: dict[str, int],
                key=lambda item: item[0],
            ) -> int:
                raise NotImplementedError("f is to be written")


            # kept
            def g(x):
                raise NotImplementedError("g is to be written")
            """,
        ),
        (
            """
            class Buffer:
                \"\"\"Holds things.\"\"\"

                size: int = 3

                def add(self, item):
                    \"\"\"Add.

                    Twice.
                    \"\"\"
                    def helper():
                        return 1
                    self.items.append(helper())

                async def get(self): return 1
            """,
            """
            class Buffer:
                \"\"\"Holds things.\"\"\"

                size: int = 3

                def add(self, item):
                    \"\"\"Add.

                    Twice.
                    \"\"\"
                    raise NotImplementedError("add is to be written")

                async def get(self):
                    raise NotImplementedError("get is to be written")
            """,
        ),
        (
            """
            def step(x):
                y = prepare(x)
                # BEGIN SOLUTION
                y = y * 2
                # END SOLUTION
                return y
            """,
            """
            def step(x):
                y = prepare(x)
                # Your code goes here.
                raise NotImplementedError("the marked part is to be written")
                return y
            """,
        ),
        (
            "def f(x):\n    'Only a docstring.'",
            "def f(x):\n    'Only a docstring.'\n"
            '    raise NotImplementedError("f is to be written")',
        ),
        (
            "def f(x): 'one line'",
            'def f(x):\n    raise NotImplementedError("f is to be written")',
        ),
        (
            'def f(x):\n    s = """a\nb"""\n    return s\n\n\nVALUE = 1',
            'def f(x):\n    raise NotImplementedError("f is to be written")\n\n\nVALUE = 1',
        ),
    ],
)
def test_stub(solution: str, stub: str):
    assert stub_of(d(solution)) == d(stub)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1", "defines no function"),
        ("def f(:", "line 1 of the cell is not Python"),
        ("# BEGIN SOLUTION\nx = 1", "line 1 of the cell: `# BEGIN SOLUTION` without"),
        ("x = 1\n# END SOLUTION", "line 2 of the cell: `# END SOLUTION` without"),
        ("# BEGIN SOLUTION\n# BEGIN SOLUTION\n# END SOLUTION", "line 2 .* stands inside another"),
    ],
)
def test_what_cannot_be_cut_is_refused(source: str, message: str):
    with pytest.raises(UserError, match=message):
        stub_of(source)


def solution(answer: str = "2 * x", extra: str = "") -> str:
    function = f"def double(x: int) -> int:\n    '''Twice x.'''\n    return {answer}"
    return "\n".join(
        [
            "# Doubling\n",
            code(function, "solution"),
            "What follows tries it.\n",
            code("double(3)", "try-it"),
            '+++ {"tags": ["solution-only"]}\n\nWhy it works.\n\n+++\n',
            code("print('same in both')"),
            code("print('only here')", "solution-only"),
            extra,
        ]
    )


@pytest.fixture
def split_book(book: Book) -> Book:
    book.page(SOLUTION, solution(), title="Solutions: doubling")
    book.nbkit("exercises", "split")
    return book


def sources(book: Book, name: str = EXERCISE) -> list[str]:
    return ["".join(cell["source"]) for cell in book.notebook(name)["cells"]]


def test_the_exercise_holds_stubs_and_nothing_of_the_solution(split_book: Book):
    front, title, stub, prose, tried, same = sources(split_book)
    assert front == "---\ntitle: 'Exercises: doubling'\n---"
    assert title == "# Doubling"
    assert stub.endswith('raise NotImplementedError("double is to be written")')
    assert "'''Twice x.'''" in stub and "2 * x" not in stub
    assert (prose, tried, same) == ("What follows tries it.", "double(3)", "print('same in both')")
    notebook = split_book.notebook(EXERCISE)
    assert all(not cell.get("outputs") for cell in notebook["cells"])
    split_book.nbkit("exercises", "split", "--check")


def test_a_changed_solution_is_found_and_regenerated(split_book: Book):
    split_book.page(SOLUTION, solution(extra="A new hint.\n"), title="Solutions: doubling")
    output = split_book.nbkit("exercises", "split", "--check", status=1)
    assert f"{EXERCISE}: is not what {SOLUTION} gives now; run `nbkit exercises split`" in output
    split_book.nbkit("exercises", "split")
    assert "A new hint." in sources(split_book)
    split_book.nbkit("exercises", "split", "--check")


def test_a_new_answer_alone_changes_nothing_for_the_learner(split_book: Book):
    before = split_book.read(EXERCISE)
    split_book.page(SOLUTION, solution("x + x"), title="Solutions: doubling")
    split_book.nbkit("exercises", "split", "--check")
    assert "up to date" in split_book.nbkit("exercises", "split")
    assert split_book.read(EXERCISE) == before


def test_a_learners_work_is_never_overwritten(split_book: Book):
    split_book.edit_notebook(EXERCISE, "raise NotImplementedError", "return 2 * x  #")
    work = split_book.read(EXERCISE)
    split_book.page(SOLUTION, solution(extra="A new hint.\n"), title="Solutions: doubling")
    output = split_book.nbkit("exercises", "split")
    assert "stays as it is; the new version is exercises/01_small.new.ipynb" in output
    assert split_book.read(EXERCISE) == work
    assert "A new hint." in sources(split_book, "exercises/01_small.new.ipynb")
    output = split_book.nbkit("exercises", "split", "--check", status=1)
    assert f"{EXERCISE}: was edited; it is generated" in output


def test_work_in_the_new_version_is_never_overwritten(split_book: Book):
    beside = "exercises/01_small.new.ipynb"
    split_book.edit_notebook(EXERCISE, "raise NotImplementedError", "return 2 * x  #")
    split_book.nbkit("exercises", "split")
    split_book.edit_notebook(beside, "raise NotImplementedError", "return x + x  #")
    work = split_book.read(EXERCISE), split_book.read(beside)
    for extra in ("", "A new hint.\n"):
        split_book.page(SOLUTION, solution(extra=extra), title="Solutions: doubling")
        message = one_sentence(split_book.nbkit("exercises", "split", status=1))
        assert message == (
            f"{EXERCISE} and {beside} have both been edited and stay as they are; rename {beside} "
            "to keep its work, or delete it, and run `nbkit exercises split` again"
        )
        assert (split_book.read(EXERCISE), split_book.read(beside)) == work
    (split_book.root / beside).rename(split_book.root / "mine.ipynb")
    split_book.nbkit("exercises", "split")
    assert "A new hint." in sources(split_book, beside)


def test_a_new_version_that_nobody_edited_is_renewed(split_book: Book):
    split_book.edit_notebook(EXERCISE, "raise NotImplementedError", "return 2 * x  #")
    split_book.nbkit("exercises", "split")
    split_book.page(SOLUTION, solution(extra="A new hint.\n"), title="Solutions: doubling")
    split_book.nbkit("exercises", "split")
    assert "A new hint." in sources(split_book, "exercises/01_small.new.ipynb")


def test_a_picture_pasted_by_a_learner_counts_as_an_edit(split_book: Book):
    notebook = split_book.notebook(EXERCISE)
    notebook["cells"][1]["attachments"] = {"image.png": {"image/png": "aGVsbG8="}}
    split_book.save_notebook(EXERCISE, notebook)
    work = split_book.read(EXERCISE)
    assert "stays as it is" in split_book.nbkit("exercises", "split")
    assert split_book.read(EXERCISE) == work


@pytest.mark.parametrize(
    "command",
    [
        ["exercises", "split", "--check"],
        ["exercises", "split"],
        ["stamp", "--check"],
        ["tangle", "--check"],
        ["test"],
    ],
)
def test_an_unknown_chapter_is_refused_first(split_book: Book, command: list[str]):
    message = one_sentence(split_book.nbkit(*command, "--chapter", "99", status=1))
    assert message == "there is no chapter 99; the chapters are: 1"


def test_outputs_and_ids_of_an_editor_do_not_count_as_edits(split_book: Book):
    notebook = split_book.notebook(EXERCISE)
    for number, cell in enumerate(notebook["cells"]):
        cell["id"] = f"other-{number}"
        cell["metadata"]["scrolled"] = True
        if cell["cell_type"] == "code":
            cell["execution_count"] = 1
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x"}]
    split_book.save_notebook(EXERCISE, notebook)
    split_book.nbkit("exercises", "split", "--check")


def test_a_missing_exercise_and_one_without_solution_are_named(split_book: Book):
    (split_book.root / EXERCISE).rename(split_book.root / "exercises/07_orphan.ipynb")
    output = split_book.nbkit("exercises", "split", "--check", status=1)
    assert f"{EXERCISE}: does not exist, though {SOLUTION} does" in output
    assert "exercises/07_orphan.ipynb: has no solutions/07_orphan.md" in output


def test_a_cell_that_cannot_be_cut_is_named(book: Book):
    book.page(SOLUTION, code("x = 1") + "\n" + code("y = 2", "solution"))
    message = one_sentence(book.nbkit("exercises", "split", status=1))
    assert message.startswith(f"{SOLUTION}: code cell 2: the cell defines no function")
    assert "code cell 2" in book.nbkit("exercises", "split", "--check", status=1)


def test_a_label_that_would_stand_twice_is_refused(book: Book):
    book.page(SOLUTION, "(eq-double)=\n# Doubling\n\n" + solution())
    message = one_sentence(book.nbkit("exercises", "split", status=1))
    assert "the label 'eq-double' would stand in the exercise too" in message
