"""What JupyterLab shows of a page, and that opening and saving changes no file."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from bookkit.authoring import lab
from bookkit.authoring.citations import names_of, works_of
from bookkit.authoring.lab_contents import BookContents
from bookkit.authoring.lab_view import lab_text
from bookkit.authoring.page import find_pages
from bookkit.authoring.smallest_edit import smallest_edit

ROOT = Path(__file__).parents[2]
FILES = [page.name for page in find_pages(ROOT)]
NOTEBOOKS = [name.replace(".md", ".ipynb") for name in FILES]
NOTEBOOKS += sorted(f"exercises/{p.name}" for p in (ROOT / "exercises").glob("*.ipynb"))


@pytest.fixture
def contents(tmp_path: Path) -> BookContents:
    """The contents of a copy of what Lab lists, without the packages."""
    for name in ("notebooks", "solutions", "exercises", "book"):
        ignored = shutil.ignore_patterns("_theme", "checks", "pictures", "claims")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    for name in ("myst.yml", "jupytext.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return BookContents(root_dir=str(tmp_path))


def through_javascript(model: dict) -> dict:
    """A model as the browser sends it back: every whole number without its point."""

    def plain(value):
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, list):
            return [plain(item) for item in value]
        return int(value) if isinstance(value, float) and value.is_integer() else value

    return {"type": "notebook", "format": "json", "content": plain(json.loads(json.dumps(model)))}


@pytest.mark.parametrize("name", [*FILES, *NOTEBOOKS])
def test_a_save_without_an_edit_changes_no_file(contents: BookContents, name: str):
    file = Path(contents.root_dir, name)
    before, written = file.read_bytes(), file.stat().st_mtime_ns
    model = contents.get(name, type="notebook")
    saved = contents.save(through_javascript(model["content"]), name)
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (before, written)
    assert saved["type"] == "notebook" and saved["last_modified"] == model["last_modified"]


@pytest.mark.parametrize("name", ["notebooks/12_ppo.md", "solutions/41_manipulation.md"])
def test_an_edit_of_a_text_page_changes_its_lines_alone(contents: BookContents, name: str):
    file = Path(contents.root_dir, name)
    before = file.read_text().splitlines()
    content = contents.get(name, type="notebook")["content"]
    code = [cell for cell in content["cells"] if cell["cell_type"] == "code"][3]
    code["source"] += "\nadded = 1"
    contents.save(through_javascript(content), name)
    after = file.read_text().splitlines()
    place = after.index("added = 1")
    assert after[:place] + after[place + 1 :] == before


def test_an_edit_of_a_notebook_leaves_all_other_cells(contents: BookContents):
    name = "notebooks/41_manipulation.ipynb"
    before = json.loads(Path(contents.root_dir, name).read_text())
    content = through_javascript(contents.get(name, type="notebook")["content"])["content"]
    place = next(i for i, cell in enumerate(content["cells"]) if cell["cell_type"] == "code")
    content["cells"][place]["source"] += "\nadded = 1"
    contents.save({"type": "notebook", "format": "json", "content": content}, name)
    text = Path(contents.root_dir, name).read_text()
    after = json.loads(text)
    assert "".join(after["cells"][place]["source"]).endswith("added = 1")
    del before["cells"][place], after["cells"][place]
    assert json.dumps(after, sort_keys=True) == json.dumps(before, sort_keys=True)


def test_an_edited_formula_stays_edited_and_the_others_keep_their_macros(contents: BookContents):
    name = "notebooks/12_ppo.md"
    content = contents.get(name, type="notebook")["content"]
    shown = [c for c in content["cells"] if "nbkit" in c["metadata"] and "mathbb" in c["source"]]
    shown[0]["source"] = shown[0]["source"].replace(r"\mathbb{E}", r"\mathbb{F}", 1)
    contents.save(through_javascript(content), name)
    text = Path(contents.root_dir, name).read_text()
    assert (
        r"\mathbb{F}" in text
        and r"\E" in text
        and r"\mathbb{E}" not in text.replace(shown[0]["source"], "")
    )


def test_nothing_that_lab_cannot_show_is_left(contents: BookContents):
    seen = 0
    for name in NOTEBOOKS:
        for cell in contents.get(name, type="notebook")["content"]["cells"]:
            if cell["cell_type"] == "markdown":
                assert "{cite" not in cell["source"], (name, cell["source"])
                assert not ("class: run-card" in cell["source"] and "\n: " in cell["source"])
                seen += 1
    assert seen > 800


def test_citations_and_run_cards_in_labs_words():
    works = works_of(ROOT)
    shown = lab_text(
        "PPO {cite:p}`schulman2017,schulman2015`, as {cite:t}`kool2019` says", {}, works
    )
    assert "(" in shown and "Schulman et al., 2017" in shown and "; " in shown
    assert "[Kool et al. (2019)](https://openreview.net" in shown
    assert lab_text("{cite:p}`nobody1900`", {}, works) == "{cite:p}`nobody1900`"
    card = ":::{admonition} Run card\n:class: run-card\nTime\n: an hour\nDevice\n: CPU\n:::"
    card += "\n\nTerm\n: x"
    assert lab_text(card, {}, {}) == (
        ":::{admonition} Run card\n:class: run-card\n\n- **Time**: an hour\n- **Device**: CPU\n:::"
        "\n\nTerm\n: x"
    )
    assert names_of(r"Randl{\o}v, Jette and Alstr{\o}m, Preben") == "Randløv & Alstrøm"
    assert names_of(r"{\"U}st{\"u}n, Ahmet") == "Üstün"
    assert names_of("One, A and Two, B and others") == "One et al."


def test_what_a_starting_kernel_writes_is_there_already(contents: BookContents):
    """Else JupyterLab marks a notebook as edited that was only opened."""
    for name in ("notebooks/12_ppo.ipynb", "notebooks/12_ppo.md", "exercises/12_ppo.ipynb"):
        metadata = contents.get(name, type="notebook")["content"]["metadata"]
        assert metadata["kernelspec"]["display_name"] == "Python 3 (ipykernel)"
        assert metadata["language_info"]["version"] == sys.version.split()[0]


def test_the_list_shows_each_page_once_unless_texts_are_asked_for(contents, monkeypatch):
    def names(folder: str) -> list[str]:
        return sorted(item["name"] for item in contents.get(folder)["content"])

    assert "12_ppo.ipynb" in names("notebooks") and "12_ppo.md" not in names("notebooks")
    assert "contributing.md" in names("book")
    monkeypatch.setenv(lab.TEXTS, "1")
    assert "12_ppo.md" in names("notebooks")


def test_other_files_are_saved_as_ever(contents: BookContents):
    contents.save({"type": "file", "format": "text", "content": "x = 1\n"}, "book/new.py")
    assert Path(contents.root_dir, "book/new.py").read_text() == "x = 1\n"


@pytest.mark.parametrize(
    ("old", "before", "after", "wanted"),
    [
        ("a\n\n\nb\n", "a\n\nb\n", "a\n\nc\n", "a\n\n\nc\n"),
        ("a\n\n\nb\n", "a\n\nb\n", "x\na\n\nb\n", "x\na\n\n\nb\n"),
        ("a\nb\nc", "a\nb\nc\n", "a\nc\n", "a\nc"),
        ("a\n", "a\n", "", ""),
    ],
)
def test_only_what_was_edited_differs(old, before, after, wanted):
    assert smallest_edit(old, before, after) == wanted


def test_a_taken_port_is_said():
    import socket

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        lab_port, lab.FIRST_PORT = lab.FIRST_PORT, other.getsockname()[1]
        try:
            line = lab.taken_port_line([])
            assert line is not None and f"Port {lab.FIRST_PORT} is taken" in line
            assert lab.taken_port_line(["--port=9000"]) is None
        finally:
            lab.FIRST_PORT = lab_port
