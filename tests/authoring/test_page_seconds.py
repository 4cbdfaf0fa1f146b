"""The seconds of a page are those that its cells ran, not those that it took to send them."""

from pathlib import Path

import nbformat
import pytest

from nbkit.authoring.run_page import run


@pytest.mark.slow
def test_seconds_cover_the_cells(tmp_path: Path) -> None:
    cells = [nbformat.v4.new_code_cell(f"import time; time.sleep({s})") for s in (0.7, 0.6)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    result = run(
        notebook, root=str(tmp_path), folder=str(tmp_path), limit_seconds=60, allow_errors=False
    )
    assert result["error"] is None
    assert result["seconds"] >= 1.3


@pytest.mark.slow
def test_the_failing_cell_is_named(tmp_path: Path) -> None:
    cells = [nbformat.v4.new_code_cell(source) for source in ("x = 1", "1 / 0", "x = 2")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    result = run(
        notebook, root=str(tmp_path), folder=str(tmp_path), limit_seconds=60, allow_errors=False
    )
    assert result["error"]["cell"] == 2
    assert result["error"]["source"] == "1 / 0"
