"""Runs an exercise as a learner finds it: it must fail in exactly the expected way.

    python -m bookkit.authoring.suite.untouched exercises/11_reinforce.ipynb

Each cell with a check reports that its function is not implemented yet, each `try-it` cell raises
NotImplementedError, and every other cell runs.
"""

import ast
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bookkit.authoring.environment import page_environment, python_command
from bookkit.authoring.execute import RUNNER
from bookkit.authoring.page import join
from bookkit.authoring.reach.sources import without_magics
from bookkit.authoring.repository import relative
from bookkit.authoring.split import TRY_IT
from bookkit.checkout import find_root

EXPECTED = "not implemented yet"


def main() -> None:
    """Run the notebook named on the command line; say what misbehaves, and end with status 1."""
    path = Path(sys.argv[1]).resolve()
    root = find_root(path.parent)
    problems = complaints(run(path, root))
    for problem in problems:
        print(f"{relative(path, root)}: {problem}")
    sys.exit(1 if problems else 0)


def run(path: Path, root: Path) -> list[dict[str, Any]]:
    """Run a notebook past its errors.

    Returns:
        Its code cells with their outputs.

    Raises:
        RuntimeError: the notebook could not be run at all.
    """
    with tempfile.TemporaryDirectory(prefix="nbkit-exercise-") as folder:
        result = Path(folder, "result.json")
        environment = page_environment(root, path)
        environment["NBKIT_PROGRESS"] = str(Path(folder, "progress.json"))
        arguments = (str(path), str(result), str(root), str(path.parent))
        command = python_command(str(RUNNER), *arguments, "--allow-errors")
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode or not result.exists():
            raise RuntimeError(f"{path.name} did not run:\n{done.stdout}{done.stderr}")
        found = json.loads(result.read_text(encoding="utf-8"))
    if found["error"] is not None:
        raise RuntimeError(f"{path.name} did not run to its end: {found['error']['message']}")
    return [cell for cell in found["notebook"]["cells"] if cell["cell_type"] == "code"]


def complaints(cells: list[dict[str, Any]]) -> list[str]:
    """Say what is not as it should be in an untouched exercise.

    Args:
        cells: the code cells with their outputs.
    """
    found = []
    checks = 0
    for number, cell in enumerate(cells, start=1):
        ids = checked_ids(join(cell["source"]))
        checks += len(ids)
        errors = [output for output in cell["outputs"] if output["output_type"] == "error"]
        names = [error["ename"] for error in errors]
        if ids:
            found += [f"code cell {number}: {text}" for text in _check_complaints(cell, ids)]
        elif TRY_IT in cell["metadata"].get("tags", []):
            if names != ["NotImplementedError"]:
                what = f"it raises {names[0]}" if names else "it runs"
                found.append(
                    f"code cell {number} is tagged `{TRY_IT}` and should raise "
                    f"NotImplementedError, but {what}"
                )
        elif errors:
            found.append(
                f"code cell {number} should run, but raises {names[0]}: {errors[0]['evalue']} "
                f"(tag it `{TRY_IT}` in the solution if it uses what the learner writes)"
            )
    return found if checks else [*found, "it has no cell with a check"]


def checked_ids(source: str) -> list[str]:
    """The exercises that a cell checks: the first arguments of its calls of `check`."""
    try:
        tree = ast.parse(without_magics(source))
    except SyntaxError:
        return []
    return [
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"nbkit.check", "check"}
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    ]


def _check_complaints(cell: dict[str, Any], ids: list[str]) -> list[str]:
    texts = []
    for output in cell["outputs"]:
        if output["output_type"] == "error":
            return [f"the check raises {output['ename']}: {output['evalue']}"]
        texts.append(join(output.get("text", output.get("data", {}).get("text/plain", ""))))
    text = "\n".join(texts)
    return [
        f"the check of {name} should report that it is {EXPECTED}, but says {text.strip()!r}"
        for name in ids
        if f"{name}: {EXPECTED}" not in text
    ]


if __name__ == "__main__":
    main()
