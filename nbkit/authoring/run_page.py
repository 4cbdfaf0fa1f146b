"""Runs one notebook in a fresh kernel: the child process behind `nbkit execute`.

Called by its path, apart from the package, so that the checkout's package and nothing else is what
the kernel imports:

    python run_page.py NOTEBOOK RESULT ROOT FOLDER CELL_SECONDS [--allow-errors]

The result is a JSON file with the notebook and its outputs, the trace of what it imported and
read, the seconds of its cells, and the error that stopped it, if any.
"""

import argparse
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type] # as quick.py explains

import nbformat  # noqa: E402
from nbclient import NotebookClient  # noqa: E402
from nbclient.exceptions import (  # noqa: E402
    CellExecutionError,
    CellTimeoutError,
    DeadKernelError,
)

TRACE = Path(__file__).with_name("trace.py")
TELL_AFTER_SECONDS = 10.0
START = f"__import__('runpy').run_path({str(TRACE)!r})['start']({{root!r}})"
FINISH = "print(__import__('sys')._nbkit_trace.report_json())"


class Progress:
    """Prints a line when a cell takes long, so that nobody looks at a silent screen."""

    def __init__(self, cells: list[Any]) -> None:
        """Take the list of the notebook's cells."""
        code = [i for i, cell in enumerate(cells) if cell.cell_type == "code"]
        self.numbers = {index: number for number, index in enumerate(code[1:-1], start=1)}
        self.total = len(self.numbers)
        self.now: int | None = None
        self.began = time.monotonic()
        self.seconds: dict[int, float] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def start(self, cell: Any, cell_index: int) -> None:
        """Note that a cell begins."""
        self.now, self.began = cell_index, time.monotonic()

    def finish(self, cell: Any, cell_index: int, execute_reply: Any) -> None:
        """Note that a cell has ended."""
        if cell_index in self.numbers:
            self.seconds[cell_index] = time.monotonic() - self.began
            if self.seconds[cell_index] >= TELL_AFTER_SECONDS:
                self._say(cell_index, "done after")
        self.now = None

    def _watch(self) -> None:
        while True:
            time.sleep(TELL_AFTER_SECONDS)
            now = self.now
            if now in self.numbers and time.monotonic() - self.began >= TELL_AFTER_SECONDS:
                self._say(now, "running for")

    def _say(self, index: int, what: str) -> None:
        seconds = time.monotonic() - self.began
        number = self.numbers[index]
        print(f"code cell {number} of {self.total}: {what} {seconds:.0f} s", flush=True)


def run(
    notebook: Any, *, root: str, folder: str, cell_seconds: float, allow_errors: bool
) -> dict[str, Any]:
    """Run a notebook and say how it went.

    Args:
        notebook: the notebook; its outputs are replaced.
        root: the checkout, whose files the trace watches.
        folder: where the kernel runs.
        cell_seconds: the limit of one cell.
        allow_errors: whether to go on after a cell that fails.
    """
    started, finished = (
        nbformat.v4.new_code_cell(source) for source in (START.format(root=root), FINISH)
    )
    notebook.cells = [started, *notebook.cells, finished]
    progress = Progress(notebook.cells)
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],
        timeout=cell_seconds,
        allow_errors=allow_errors,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": folder}},
        on_cell_start=progress.start,
        on_cell_executed=progress.finish,  # on_cell_complete comes when the cell is only sent
    )
    error: dict[str, Any] | None = None
    try:
        client.execute()
    except CellExecutionError as problem:
        error = {"name": problem.ename, "message": problem.evalue, "traceback": str(problem)}
    except CellTimeoutError:
        message = f"took longer than {cell_seconds:.0f} s"
        error = {"name": "Timeout", "message": message, "traceback": message}
    except DeadKernelError as problem:
        message = "the kernel died (out of memory, or a crash in compiled code)"
        error = {"name": "DeadKernel", "message": message, "traceback": str(problem)}
    if error is not None:
        index = progress.now if progress.now is not None else max(progress.seconds, default=0)
        error["cell"] = progress.numbers.get(index, 0)
        error["source"] = notebook.cells[index].source
    trace: dict[str, list[str]] = {"modules": [], "reads": []}
    if error is None:
        trace = json.loads("".join(output.text for output in finished.outputs))
    notebook.cells = notebook.cells[1:-1]
    seconds = sum(progress.seconds.values())
    return {"notebook": notebook, "trace": trace, "seconds": seconds, "error": error}


def main() -> None:
    """Read the arguments, run, write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("root")
    parser.add_argument("folder")
    parser.add_argument("cell_seconds", type=float)
    parser.add_argument("--allow-errors", action="store_true")
    given = parser.parse_args()
    result = run(
        nbformat.read(given.notebook, 4),
        root=given.root,
        folder=given.folder,
        cell_seconds=given.cell_seconds,
        allow_errors=given.allow_errors,
    )
    given.result.write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
