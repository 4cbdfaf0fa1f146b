"""In a kernel of `make lab`, an error says how to mend it."""

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from bookkit.authoring import lab, lab_kernel

ROOT = Path(__file__).parents[2]


def test_a_name_of_an_import_cell_is_traced_to_it(tmp_path: Path):
    cells = [
        {"cell_type": "code", "source": ["import numpy as np\n", "from torch import Tensor"]},
        {"cell_type": "markdown", "source": "x = 1"},
        {"cell_type": "code", "source": "%magic\n"},
        {"cell_type": "code", "source": "def f():\n    return 1\n\n\nlimit, other = 3, 4"},
    ]
    notebook = tmp_path / "a.ipynb"
    notebook.write_text(json.dumps({"cells": cells}))
    for name in ("np", "Tensor"):
        line = lab_kernel.unknown_name_line(name, notebook)
        assert line is not None and f"`{name}` comes from the first code cell" in line
    for name in ("f", "other"):
        assert "code cell 3" in (lab_kernel.unknown_name_line(name, notebook) or "")
    assert lab_kernel.unknown_name_line("x", notebook) is None
    assert lab_kernel.unknown_name_line("x", tmp_path / "none.ipynb") is None
    assert lab_kernel.unknown_name_line("x", None) is None


@pytest.mark.slow
def test_a_check_before_the_imports_says_which_cell_to_run(tmp_path: Path, monkeypatch):
    own = tmp_path / "own.py"
    own.write_text("import builtins\nbuiltins.of_the_reader = 7\n")
    monkeypatch.setenv("PYTHONSTARTUP", str(own))
    for name, value in lab.lab_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("JPY_SESSION_NAME", str(ROOT / "exercises/12_ppo.ipynb"))
    sources = [
        'nbkit.check("ppo.gae.1", print)',
        "of_the_reader + unheard_of",
        "assert of_the_reader == 8",
        "assert False, 'said by its author'",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])
    NotebookClient(notebook, kernel_name="python3", allow_errors=True).execute()
    said = [[o.get("text", o.get("ename")) for o in cell.outputs] for cell in notebook.cells]
    assert said[0][0] == "NameError"
    assert "`nbkit` comes from the first code cell of this notebook" in said[0][1]
    assert said[1] == ["NameError"]
    assert said[2][0] == "AssertionError"
    assert "`assert of_the_reader == 8` does not hold" in said[2][1]
    assert said[3] == ["AssertionError"]
