"""The seconds of a page are those that its cells ran, not those that it took to send them."""

from contextlib import suppress
from pathlib import Path

import nbformat
import psutil
import pytest

from bookkit.authoring.run_page import run


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


@pytest.mark.slow
def test_a_page_that_computes_too_long_is_ended_with_all_its_children(tmp_path: Path) -> None:
    child = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    sources = (
        "import subprocess, sys",
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE)\n"
        "open('child', 'wb').write(child.stdout.readline())",
        "while True: pass",
    )
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook = nbformat.v4.new_notebook(cells=cells)
    result = run(
        notebook, root=str(tmp_path), folder=str(tmp_path), limit_seconds=4, allow_errors=False
    )
    assert result["error"]["name"] == "Ended" and result["error"]["cell"] == 3
    assert "more than its limit of 4 s" in result["error"]["message"]
    assert 4 <= result["processor_seconds"] < 12
    with suppress(psutil.NoSuchProcess):
        child_now = psutil.Process(int((tmp_path / "child").read_text()))
        assert child_now.status() == psutil.STATUS_ZOMBIE


@pytest.mark.slow
def test_processor_seconds_count_children_and_not_the_clock(tmp_path: Path) -> None:
    burn = "import time\nwhile time.process_time() < 1: pass"
    ended = f"import subprocess, sys, time\nsubprocess.run([sys.executable, '-c', {burn!r}])"
    alive = (
        f"child = subprocess.Popen([sys.executable, '-c', {burn!r} + '\\ntime.sleep(60)'])\n"
        "time.sleep(4)"
    )
    cells = [nbformat.v4.new_code_cell(source) for source in (ended, "time.sleep(2)", alive)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    result = run(notebook, root=str(tmp_path), folder=str(tmp_path), allow_errors=False)
    assert result["error"] is None
    assert 1.5 <= result["processor_seconds"] < 4 < 6 <= result["seconds"]
