"""Runs at the start of a kernel of `make lab`: says how to mend what a bare traceback does not say.

A name that the notebook's first cells bind and that is unknown was not imported yet; an assertion
of a cell that fails compares with the example worked by hand.
"""

import ast
import json
import os
import runpy
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

NEXT = "NBKIT_PYTHONSTARTUP"  # the reader's own startup file, which runs as well


def unknown_name_line(name: str, notebook: Path | None) -> str | None:
    """Which cell of a notebook binds a name; None if none does."""
    cells = [] if notebook is None else _code_cells(notebook)
    for number, source in enumerate(cells, start=1):
        if name in _bound(source):
            which = "the first code cell" if number == 1 else f"code cell {number}"
            return (
                f"`{name}` comes from {which} of this notebook, which has not run yet: run it, or "
                "choose Run ▸ Run All Above Selected Cell."
            )
    return None


def failed_assertion_line(source: str) -> str:
    """What a failed assertion without a message means; `source` is its line."""
    return (
        f"`{source}` does not hold: your function gives another value than the example. Run its "
        "check, which says what is wrong."
    )


def _code_cells(notebook: Path) -> list[str]:
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError):  # a text page, or a notebook not saved yet
        return []
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def _bound(source: str) -> set[str]:
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return set()
    names: set[str] = set()
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            inside = [part for target in node.targets for part in ast.walk(target)]
            names |= {part.id for part in inside if isinstance(part, ast.Name)}
    return names


def _notebook() -> Path | None:
    """The file of the notebook that this kernel belongs to, as the server names it."""
    name = os.environ.get("JPY_SESSION_NAME", "")
    return Path(name) if name else None


def explain(
    shell: "InteractiveShell",
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
    tb_offset: int | None = None,
) -> Any:
    """Show the traceback as ever, and a line on how to mend it behind."""
    shown = shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
    line = None
    if isinstance(error, NameError) and error.name:
        line = unknown_name_line(error.name, _notebook())
    elif isinstance(error, AssertionError) and not str(error):
        source = _last_line(trace)
        line = failed_assertion_line(source) if source else None
    if line is not None:
        print(line, file=sys.stderr)
    return shown


def _last_line(trace: TracebackType | None) -> str:
    """The line of the cell where an exception arose; empty if it arose elsewhere."""
    frames = traceback.extract_tb(trace)
    if not frames or frames[-1].name != "<module>":
        return ""
    return (frames[-1].line or "").strip()


def main() -> None:
    """Set the explanations up in the shell that runs this file."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is not None:
        shell.set_custom_exc((NameError, AssertionError), explain)
    own = os.environ.get(NEXT)
    if own and Path(own).is_file():
        runpy.run_path(own)


if __name__ == "__main__":
    main()
