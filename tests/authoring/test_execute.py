"""`nbkit execute` and `nbkit stamp`: what is stored, what is named as stale, what is refused."""

import pytest

from tests.authoring.book import Book, code, one_sentence
from tests.authoring.conftest import CHAPTER, NOTEBOOK

pytestmark = pytest.mark.slow


def outputs(notebook: dict) -> list:
    return [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_holds_outputs_front_matter_and_stamp(executed: Book):
    notebook = executed.notebook(NOTEBOOK)
    first = "".join(notebook["cells"][0]["source"])
    assert first == "---\ntitle: A small chapter\nshort_title: Small\n---"
    assert outputs(notebook)[0][0]["data"]["text/plain"] == ["12"]
    assert outputs(notebook)[1][0]["data"]["text/plain"] == ["[1, 2]"]
    stamp = notebook["metadata"]["nbkit"]["stamp"]
    assert {"nbkit.extra.twice", "nbkit.losses.loss"} <= set(stamp["reach"])
    assert {"commit", "date", "processor"} <= set(stamp) and stamp["processor_seconds"] >= 0
    assert set(stamp["reads"]) == {"studies/results/curve.json"}
    assert {"python", "numpy"} <= set(stamp["versions"])
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert str(executed.root) not in executed.read(NOTEBOOK)


def test_a_second_execution_gives_the_same_file(executed: Book):
    before = executed.notebook(NOTEBOOK)
    executed.nbkit("execute", "--all")
    after = executed.notebook(NOTEBOOK)
    for notebook in (before, after):
        for key in ("seconds", "processor_seconds"):
            del notebook["metadata"]["nbkit"]["stamp"][key]
    assert before == after


def test_a_fresh_page_is_not_rerun(executed: Book):
    before = executed.read(NOTEBOOK)
    assert "0 run, 0 re-paired, 1 fresh, 0 failed" in executed.nbkit("execute")
    assert executed.read(NOTEBOOK) == before
    assert "stale" not in executed.nbkit("stamp")


@pytest.mark.parametrize(
    ("file", "old", "new", "named"),
    [
        ("nbkit/losses.py", "2 * x", "3 * x", "nbkit.losses.loss changed"),
        ("nbkit/extra.py", "loss(loss(x))", "loss(x)", "nbkit.extra.twice changed"),
        ("nbkit/losses.py", "def loss", "def other", "nbkit.losses.loss changed"),
        ("nbkit/__init__.py", "", "print('imported')\n", "nbkit (on import) changed"),
        ("studies/results/curve.json", "[1, 2]", "[1, 3]", "studies/results/curve.json changed"),
    ],
)
def test_what_the_page_was_made_from_is_named_when_it_changes(
    executed: Book, file: str, old: str, new: str, named: str
):
    assert old in executed.read(file)
    executed.write(file, executed.read(file).replace(old, new) if old else new)
    output = executed.nbkit("stamp", "--check", status=1)
    assert named in output
    assert f"run `nbkit execute {CHAPTER}`" in output


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""Losses."""', '"""Losses, all of them."""'),
        ("return 2 * x", "return (2 * x)  # twice"),
        ("def loss", "def new():\n    return 1\n\n\ndef loss"),
    ],
)
def test_what_does_not_run_makes_no_page_stale(executed: Book, old: str, new: str):
    before = executed.nbkit("stamp")
    executed.write("nbkit/losses.py", executed.read("nbkit/losses.py").replace(old, new))
    assert executed.nbkit("stamp") == before and "stale" not in before


def test_a_module_that_the_page_does_not_import_does_not_make_it_stale(executed: Book):
    executed.write("nbkit/unused.py", "VALUE = 2\n")
    assert "stale" not in executed.nbkit("stamp")


def test_a_file_that_vanished_is_named(executed: Book):
    (executed.root / "studies/results/curve.json").unlink()
    assert "studies/results/curve.json changed" in executed.nbkit("stamp", "--check", status=1)


def test_new_prose_keeps_the_outputs_without_a_rerun(executed: Book):
    executed.write(CHAPTER, executed.read(CHAPTER).replace("Its first prose", "Its other prose"))
    assert "its prose or the form of its code changed" in executed.nbkit(
        "stamp", "--check", status=1
    )
    before = outputs(executed.notebook(NOTEBOOK))
    assert "0 run, 1 re-paired" in executed.nbkit("execute")
    assert "Its other prose" in executed.read(NOTEBOOK)
    assert outputs(executed.notebook(NOTEBOOK)) == before
    assert "stale" not in executed.nbkit("stamp")


@pytest.mark.parametrize(
    "new", ["twice(\n    3\n)", "twice((3))  # of a number", "\n# Twice twice.\ntwice(3)"]
)
def test_code_that_runs_as_before_keeps_the_outputs_without_a_rerun(executed: Book, new: str):
    executed.write(CHAPTER, executed.read(CHAPTER).replace("\ntwice(3)", f"\n{new}"))
    before = outputs(executed.notebook(NOTEBOOK))
    assert "0 run, 1 re-paired" in executed.nbkit("execute")
    source = "".join(executed.notebook(NOTEBOOK)["cells"][2]["source"])
    assert new in source and outputs(executed.notebook(NOTEBOOK)) == before
    assert "stale" not in executed.nbkit("stamp")


@pytest.mark.parametrize(
    "sees", ["import inspect as i; i.getsource(twice)", "__doc__", "%timeit -n1 -r1 1"]
)
def test_code_that_may_print_its_own_text_reruns_when_it_is_written_anew(executed: Book, sees: str):
    written = executed.read(CHAPTER).replace("\ntwice(3)", f"\ntwice(3)\n{sees}")
    executed.write(CHAPTER, written)
    executed.nbkit("execute")
    executed.write(CHAPTER, written.replace("twice(3)", "twice((3))"))
    assert "stale: its code changed" in executed.nbkit("stamp", "--check", status=1)


def test_another_version_and_another_processor_are_said_and_do_not_fail(executed: Book):
    notebook = executed.notebook(NOTEBOOK)
    stamp = notebook["metadata"]["nbkit"]["stamp"]
    stamp["versions"]["numpy"], stamp["processor"] = "1.0.0", "a slow one"
    executed.save_notebook(NOTEBOOK, notebook)
    output = executed.nbkit("stamp")
    assert f"{CHAPTER}: its proof is old: numpy 1.0.0 then, " in output
    assert "1 pages were executed on another processor: a slow one" in output
    assert "0 run, 0 re-paired, 1 fresh" in executed.nbkit("execute")


def test_a_page_in_order_passes_the_check_once_it_is_measured(executed: Book):
    assert "was never measured" in executed.nbkit("stamp", "--check", status=1)
    executed.nbkit("spread", CHAPTER)
    assert "1 fresh, none stale" in executed.nbkit("stamp", "--check")


def test_new_code_reruns(executed: Book):
    executed.write(CHAPTER, executed.read(CHAPTER).replace("twice(3)", "twice(5)"))
    assert "stale: its code changed" in executed.nbkit("stamp", "--check", status=1)
    assert "1 run" in executed.nbkit("execute", CHAPTER)
    assert outputs(executed.notebook(NOTEBOOK))[0][0]["data"]["text/plain"] == ["20"]


def test_a_failing_page_keeps_its_old_notebook_and_is_named(executed: Book):
    before = executed.read(NOTEBOOK)
    executed.write(CHAPTER, executed.read(CHAPTER).replace("twice(3)", "twice(1 / 0)"))
    output = executed.nbkit("execute", status=1)
    assert f"{CHAPTER}: code cell 1" in output
    assert "ZeroDivisionError: division by zero" in output
    assert f"{NOTEBOOK} is as it was" in output
    assert executed.read(NOTEBOOK) == before


def test_a_failing_page_does_not_stop_the_others(book: Book):
    book.page("notebooks/02_bad.md", code("raise ValueError('no')"))
    output = book.nbkit("execute", status=1)
    assert "1 run" in output and "1 failed" in output
    assert not (book.root / "notebooks/02_bad.ipynb").exists()


def test_a_kernel_that_dies_is_reported(book: Book):
    book.page("notebooks/02_dead.md", code("import os\nos._exit(1)"))
    output = book.nbkit("execute", "notebooks/02_dead.md", status=1)
    assert "code cell 1" in output and "the kernel died" in output


def test_solutions_run_strictly_and_chapters_do_not(book: Book):
    body = code('import os\nos.environ.get("NBKIT_STRICT")')
    book.page("solutions/01_small.md", body)
    book.page("notebooks/02_other.md", body)
    book.nbkit("execute")
    assert outputs(book.notebook("solutions/01_small.ipynb"))[0][0]["data"]["text/plain"] == ["'1'"]
    assert outputs(book.notebook("notebooks/02_other.ipynb"))[0] == []


def test_ids_are_unique_across_pages_with_equal_cells(book: Book):
    for name in ("notebooks/02_a", "notebooks/03_b"):
        book.page(f"{name}.md", code("1 + 1") + "\n" + code("1 + 1"))
    book.nbkit("execute")
    ids = [
        cell["id"]
        for name in ("notebooks/02_a", "notebooks/03_b")
        for cell in book.notebook(f"{name}.ipynb")["cells"]
    ]
    assert len(set(ids)) == len(ids)


def test_a_dirty_notebook_is_refused_and_kept(executed: Book):
    executed.edit_notebook(NOTEBOOK, "twice(3)", "twice(7)")
    before = executed.read(NOTEBOOK)
    message = one_sentence(executed.nbkit("execute", "--all", status=1))
    assert NOTEBOOK in message and "nbkit sync" in message
    assert executed.read(NOTEBOOK) == before


def test_outputs_edited_by_hand_are_named_and_rerun(executed: Book):
    notebook = executed.notebook(NOTEBOOK)
    notebook["cells"][2]["outputs"][0]["data"]["text/plain"] = ["1200"]
    executed.save_notebook(NOTEBOOK, notebook)
    output = executed.nbkit("stamp", "--check", status=1)
    assert f"{NOTEBOOK}: its outputs were edited after execution" in output
    executed.nbkit("execute")
    assert outputs(executed.notebook(NOTEBOOK))[0][0]["data"]["text/plain"] == ["12"]


def test_measurements_edited_by_hand_are_named(executed: Book):
    executed.nbkit("spread", CHAPTER)
    executed.nbkit("stamp", "--check")
    notebook = executed.notebook(NOTEBOOK)
    notebook["metadata"]["nbkit"]["draws"]["processor_seconds"][0] += 1
    executed.save_notebook(NOTEBOOK, notebook)
    output = executed.nbkit("stamp", "--check", status=1)
    assert f"{NOTEBOOK}: what was measured of it under several roundings was edited" in output
    executed.nbkit("spread", CHAPTER)
    executed.nbkit("stamp", "--check")


def test_a_page_that_was_never_executed_and_an_orphan_are_named(book: Book):
    book.save_notebook("notebooks/09_orphan.ipynb", {"cells": [], "metadata": {}, "nbformat": 4})
    output = book.nbkit("stamp", "--check", status=1)
    assert f"{CHAPTER}: has never been executed" in output
    assert "notebooks/09_orphan.ipynb: has no text page beside it" in output


def test_progress_bars_keep_their_last_state_only(book: Book):
    body = code("for i in range(3):\n    print(f'\\rstep {i}', end='')\nprint()")
    book.page("notebooks/02_bar.md", body)
    book.nbkit("execute", "notebooks/02_bar.md")
    [[output]] = outputs(book.notebook("notebooks/02_bar.ipynb"))
    assert output["text"] == ["step 2\n"]


def test_an_unknown_page_is_one_sentence(book: Book):
    message = one_sentence(book.nbkit("execute", "notebooks/none.md", status=1))
    assert "notebooks/none.md is not an executed page" in message


def test_a_broken_notebook_is_one_sentence(executed: Book):
    executed.write(NOTEBOOK, "{ no json")
    [line] = executed.nbkit("stamp", "--check", status=1).splitlines()
    assert NOTEBOOK in line and "restore it" in line
    assert NOTEBOOK in one_sentence(executed.nbkit("execute", status=1))


def test_a_broken_front_matter_is_one_sentence(book: Book):
    book.write("notebooks/02_x.md", "---\ntitle: [\njupytext: {}\n---\n\ntext\n")
    output = book.nbkit("stamp", "--check", status=1)
    assert "notebooks/02_x.md cannot be read as a MyST page" in output
    message = one_sentence(book.nbkit("execute", "notebooks/02_x.md", status=1))
    assert "notebooks/02_x.md cannot be read as a MyST page" in message


def test_outside_a_book_is_one_sentence(tmp_path):
    message = one_sentence(Book(tmp_path).nbkit("stamp", status=1))
    assert "is not inside the book's repository" in message


def test_jupytexts_own_pairing_is_refused(executed: Book):
    text = executed.read(CHAPTER)
    executed.write(CHAPTER, text.replace("jupytext:\n", "jupytext:\n  formats: md:myst,ipynb\n"))
    output = executed.nbkit("stamp", "--check", status=1)
    assert f"{CHAPTER}: its header pairs it by Jupytext's `formats` too; remove that line" in output
    executed.write(CHAPTER, text.replace("    extension: .md\n", ""))
    output = executed.nbkit("stamp", "--check", status=1)
    assert f"{CHAPTER}: its header lacks `text_representation" in output


def test_of_the_exercises_only_those_that_are_checked_count(book: Book):
    registry = "import runpy\n\n\ndef check(name):\n    name = name.replace('.', '_')\n"
    registry += "    runpy.run_path(f'../exercises/checks/03/{name}.py')\n"
    book.write("bookkit/exercises/__init__.py", "")
    book.write("bookkit/exercises/check.py", registry)
    names = {name: f"exercises/checks/03/{name}_03_1.py" for name in ("a", "b")}
    for name, path in names.items():
        book.write(path, f"CHECK = dict(id='{name}.03.1', size=1)\n")
    page = "solutions/03_x.md"
    book.page(page, code("from bookkit.exercises.check import check\n\ncheck('a.03.1')"))
    book.nbkit("execute", page)

    def edit(name: str, old: str, new: str) -> str:
        assert old in book.read(name)
        book.write(name, book.read(name).replace(old, new))
        return book.nbkit("stamp")

    assert f"{page}: stale" not in edit(names["b"], "size=1", "size=2")
    assert f"{page}: stale" not in edit(names["a"], "CHECK", "# A comment.\nCHECK")
    output = edit(names["a"], "size=1", "size=2")
    assert f"{page}: stale: exercises.checks.03.a_03_1.CHECK changed" in output
