"""Runs one notebook in a fresh kernel: the child process behind `nbkit execute`.

Called by its path, apart from the package, so that the checkout's package and nothing else is what
the kernel imports:

    python run_page.py NOTEBOOK RESULT ROOT FOLDER [LIMIT_SECONDS] [--allow-errors] [--asserts]

The result is a JSON file with the notebook and its outputs, the trace of what it imported and
read, the seconds of its cells by the clock and of processor time, with `--asserts` what its
assertions were, and the error that stopped it, if any. A page is ended when it has used more than
its limit of processor time, or hangs; the clock limits nothing.
"""

import argparse
import json
import os
import runpy
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type] # as quick.py explains

import nbformat  # noqa: E402
from nbclient import NotebookClient  # noqa: E402
from nbclient.exceptions import CellExecutionError, DeadKernelError  # noqa: E402

HERE = Path(__file__).parent
TRACE, ASSERTS, WATCH = HERE / "trace.py", HERE / "hooks" / "asserts.py", HERE / "watch.py"
watch = runpy.run_path(str(WATCH))  # by its path, as this file itself
LIMIT_SECONDS: float = watch["LIMIT_SECONDS"]
TELL_AFTER_SECONDS = 10.0
RUN_PATH = "__import__('runpy').run_path"
START = f"{RUN_PATH}({str(TRACE)!r})['start']({{root!r}})"
FINISH = "print(__import__('sys')._nbkit_trace.report_json())"
START_ASSERTS = f"; {RUN_PATH}({str(ASSERTS)!r})['start']()"
FINISH_ASSERTS = "; print(__import__('sys')._nbkit_asserts.report_json())"


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
    notebook: Any,
    *,
    root: str,
    folder: str,
    allow_errors: bool,
    limit_seconds: float = LIMIT_SECONDS,
    asserts: bool = False,
) -> dict[str, Any]:
    """Run a notebook and say how it went.

    Args:
        notebook: the notebook; its outputs are replaced.
        root: the checkout, whose files the trace watches.
        folder: where the kernel runs.
        allow_errors: whether to go on after a cell that fails.
        limit_seconds: of processor time, of the kernel and all its children together.
        asserts: whether to measure the assertions; one that fails is noted, and the page goes on.
    """
    start = START.format(root=root) + (START_ASSERTS if asserts else "")
    finish = FINISH + (FINISH_ASSERTS if asserts else "")
    started, finished = map(nbformat.v4.new_code_cell, (start, finish))
    notebook.cells = [started, *notebook.cells, finished]
    progress = Progress(notebook.cells)
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],
        timeout=None,
        startup_timeout=10**6,  # the watch below ends a kernel that computes nothing
        allow_errors=allow_errors,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": folder}},
        on_cell_start=progress.start,
        on_cell_executed=progress.finish,  # on_cell_complete comes when the cell is only sent
    )
    error: dict[str, Any] | None = None
    watcher = watch["Watch"](
        os.getpid(),
        lambda: watch["kill_descendants"](os.getpid()),
        limit_seconds=limit_seconds,
    )
    with watcher:
        try:
            client.execute()
        except CellExecutionError as problem:
            error = {"name": problem.ename, "message": problem.evalue, "traceback": str(problem)}
        except DeadKernelError as problem:
            message = "the kernel died (out of memory, or a crash in compiled code)"
            error = {"name": "DeadKernel", "message": message, "traceback": str(problem)}
    if watcher.reason is not None:
        error = {"name": "Ended", "message": watcher.reason, "traceback": watcher.reason}
    if error is not None:
        index = progress.now if progress.now is not None else max(progress.seconds, default=0)
        error["cell"] = progress.numbers.get(index, 0)
        error["source"] = notebook.cells[index].source
    trace: dict[str, Any] = {"modules": [], "reads": [], "processor_seconds": watcher.seconds}
    noted: list[dict[str, Any]] = []
    if error is None:
        lines = "".join(output.text for output in finished.outputs).splitlines()
        trace = json.loads(lines[0])
        noted = json.loads(lines[1]) if asserts else []
    notebook.cells = notebook.cells[1:-1]
    return {
        "notebook": notebook,
        "processor_seconds": trace.pop("processor_seconds"),
        "trace": trace,
        "seconds": sum(progress.seconds.values()),
        "asserts": noted,
        "error": error,
    }


def main() -> None:
    """Read the arguments, run, write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("root")
    parser.add_argument("folder")
    parser.add_argument("limit_seconds", type=float, nargs="?", default=LIMIT_SECONDS)
    parser.add_argument("--allow-errors", action="store_true")
    parser.add_argument("--asserts", action="store_true")
    given = parser.parse_args()
    result = run(
        nbformat.read(given.notebook, 4),
        root=given.root,
        folder=given.folder,
        allow_errors=given.allow_errors,
        limit_seconds=given.limit_seconds,
        asserts=given.asserts,
    )
    given.result.write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
