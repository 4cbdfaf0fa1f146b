"""`nbkit sync`: edits made in a notebook reach its text, and nothing is ever lost."""

import pytest

from tests.authoring.book import Book, code, one_sentence
from tests.authoring.conftest import CHAPTER, NOTEBOOK

pytestmark = pytest.mark.slow


def test_edits_of_code_and_prose_reach_the_text(executed: Book):
    executed.edit_notebook(NOTEBOOK, "twice(3)", "twice(7)")
    executed.edit_notebook(NOTEBOOK, "More prose.", "Other prose.\n\n:::{note}\nKept.\n:::")
    output = executed.nbkit("stamp", "--check", status=1)
    assert f"{NOTEBOOK}: dirty pairing: the notebook was edited" in output
    assert f"nbkit sync {CHAPTER}" in output
    old = executed.read(CHAPTER)
    assert "took the edits" in executed.nbkit("sync")
    new = executed.read(CHAPTER)
    assert new == old.replace("twice(3)", "twice(7)").replace(
        "More prose.", "Other prose.\n\n:::{note}\nKept.\n:::"
    )
    assert "its code changed" in executed.nbkit("stamp", "--check", status=1)
    executed.nbkit("execute")
    assert "stale" not in executed.nbkit("stamp")


def test_a_new_cell_with_tags_reaches_the_text(executed: Book):
    notebook = executed.notebook(NOTEBOOK)
    cell = {
        "cell_type": "code",
        "id": "new",
        "source": "print('new')",
        "metadata": {"tags": ["hide-input"], "scrolled": True},
        "outputs": [],
        "execution_count": 3,
    }
    notebook["cells"].append(cell)
    executed.save_notebook(NOTEBOOK, notebook)
    executed.nbkit("sync", NOTEBOOK)
    assert code("print('new')", "hide-input").strip() in executed.read(CHAPTER)
    assert "scrolled" not in executed.read(CHAPTER)


def test_an_edited_front_matter_reaches_the_header(executed: Book):
    executed.edit_notebook(NOTEBOOK, "title: A small chapter", "title: A better title")
    executed.nbkit("sync")
    text = executed.read(CHAPTER)
    assert "title: A better title\nshort_title: Small\n" in text
    assert "format_name: myst" in text


def test_when_both_were_edited_neither_is_touched(executed: Book):
    executed.edit_notebook(NOTEBOOK, "twice(3)", "twice(7)")
    executed.write(CHAPTER, executed.read(CHAPTER).replace("twice(3)", "twice(9)"))
    notebook, text = executed.read(NOTEBOOK), executed.read(CHAPTER)
    assert "both" in executed.nbkit("stamp", "--check", status=1)
    message = one_sentence(executed.nbkit("sync", status=1))
    assert "notebooks/01_small.from-notebook.txt" in message
    assert "twice(7)" in executed.read("notebooks/01_small.from-notebook.txt")
    assert (executed.read(NOTEBOOK), executed.read(CHAPTER)) == (notebook, text)


def test_a_merge_under_way_is_not_overwritten(executed: Book):
    other = "notebooks/01_small.from-notebook.txt"
    executed.edit_notebook(NOTEBOOK, "twice(3)", "twice(7)")
    executed.write(CHAPTER, executed.read(CHAPTER).replace("twice(3)", "twice(9)"))
    executed.nbkit("sync", status=1)
    first = executed.read(other)
    assert "merge it into" in one_sentence(executed.nbkit("sync", status=1))
    assert executed.read(other) == first
    executed.write(other, first + "\nMy notes on the merge.\n")
    message = one_sentence(executed.nbkit("sync", status=1))
    assert f"{other} holds another text than the notebook and stays as it is" in message
    assert f"move that file away, and run `nbkit sync {CHAPTER}`" in message
    assert executed.read(other) == first + "\nMy notes on the merge.\n"


def test_a_pasted_picture_is_refused_and_kept(executed: Book):
    notebook = executed.notebook(NOTEBOOK)
    notebook["cells"][1]["attachments"] = {"image.png": {"image/png": "aGVsbG8="}}
    executed.save_notebook(NOTEBOOK, notebook)
    before = executed.read(NOTEBOOK), executed.read(CHAPTER)
    for command in (["execute"], ["execute", "--all"], ["sync"]):
        message = one_sentence(executed.nbkit(*command, status=1))
        assert message.startswith(f"{NOTEBOOK}: cell 2 holds a pasted picture")
        assert "save the picture as a file under book/pictures" in message
        assert (executed.read(NOTEBOOK), executed.read(CHAPTER)) == before
    assert "cell 2 holds a pasted picture" in executed.nbkit("stamp", "--check", status=1)


def test_the_same_edit_in_both_is_no_conflict(executed: Book):
    executed.edit_notebook(NOTEBOOK, "twice(3)", "twice(7)")
    executed.write(CHAPTER, executed.read(CHAPTER).replace("twice(3)", "twice(7)"))
    executed.nbkit("execute")
    assert "stale" not in executed.nbkit("stamp")


def test_a_text_that_is_ahead_stays(executed: Book):
    executed.write(CHAPTER, executed.read(CHAPTER).replace("twice(3)", "twice(9)"))
    text = executed.read(CHAPTER)
    assert f"run `nbkit execute {CHAPTER}`" in executed.nbkit("sync")
    assert executed.read(CHAPTER) == text


def test_an_orphan_becomes_a_page(executed: Book):
    (executed.root / CHAPTER).rename(executed.root / "kept.txt")
    executed.nbkit("sync", NOTEBOOK)
    assert "twice(3)" in executed.read(CHAPTER)
    assert "stale" not in executed.nbkit("stamp")
