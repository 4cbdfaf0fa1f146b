"""Builds that must not succeed, and what they say."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from site_books import FIXTURE_BOOK, REPOSITORY, copy_fixture_book

from bookkit.site.build import SiteError, build_site, project_root

pytestmark = pytest.mark.slow


def test_broken_pages_stop_the_build_and_are_all_named(tmp_path: Path) -> None:
    project = copy_fixture_book(tmp_path)
    page = project / "constructs.md"
    text = page.read_text(encoding="utf-8")
    text += "\n\n```{mermaid}\ngraph LR\n```\n\n![](loop.svg)\n"
    page.write_text(text, encoding="utf-8")
    notebook = project / "notebook.ipynb"
    data = json.loads(notebook.read_text(encoding="utf-8"))
    code = next(cell for cell in data["cells"] if cell["cell_type"] == "code")
    code["outputs"] = [
        {"output_type": "display_data", "metadata": {}, "data": {"application/x-strange": "?"}}
    ]
    notebook.write_text(json.dumps(data), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", "from bookkit.site.commands import app; app()", "build"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert "constructs.md: node 'mermaid'" in said
    assert "the picture 'loop.svg' has no alt text" in said
    assert "notebook.ipynb: node 'outputs', cell cell-01" in said
    assert "holds only application/x-strange" in said
    assert "The book was not built: mend what is named above" in said
    assert not (project / "_build" / "html").exists()


def test_warning_of_jupyter_book_stops_a_rebuild_and_the_server_keeps_the_last_site(
    fixture_site: Path, tmp_path: Path
) -> None:
    built = fixture_site.parents[1]
    project = tmp_path / built.name
    shutil.copytree(built, project)
    page = project / "index.md"
    page.write_text(page.read_text(encoding="utf-8") + "\n{eq}`nowhere`\n", encoding="utf-8")
    with pytest.raises(SiteError, match="The book was not built"):
        build_site(project, keep_last=True)
    assert (project / fixture_site.relative_to(built) / "index.html").is_file()


def test_outside_the_repository_the_mend_is_named(tmp_path: Path) -> None:
    with pytest.raises(SiteError, match=r"There is no myst\.yml in .* run this inside"):
        project_root(tmp_path)


def test_project_is_found_from_below() -> None:
    assert project_root(FIXTURE_BOOK) == FIXTURE_BOOK
    assert project_root(REPOSITORY / "book") == REPOSITORY
