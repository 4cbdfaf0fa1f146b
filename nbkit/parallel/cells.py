"""Functions of a notebook cell in several processes: what the reader sees is what the ranks run.

A process that starts clean cannot import a cell. So the function travels by value, with the cell
functions and constants that it mentions; whatever comes from a module is imported over there.
"""

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch

from nbkit.parallel.launch import run_ranks


def warm(*modules: str) -> None:
    """Start the server that the ranks are forked from, with these modules imported once for all.

    Args:
        modules: by name, besides ``nbkit.parallel``.

    """
    run_ranks(_nothing, 1, timeout_s=900.0, preload=("nbkit.parallel", *modules))


def in_ranks(
    function: Callable[..., Any], size: int, *arguments: Any, timeout_s: float = 300.0
) -> list[Any]:
    """Call a function of this notebook in `size` clean processes of one thread each.

    What a rank prints is shown when all have ended, rank by rank, so that the page does not depend
    on who came first. Warnings, and what libraries announce, are shown if the rank fails.

    Args:
        function: defined in a cell, or anywhere.
        size: number of processes.
        arguments: handed to each, as copies.
        timeout_s: of the whole call; then all of them are stopped.

    Returns:
        What each rank returned: plain data and tensors, which must not need a class of the cells.

    Raises:
        RanksFailedError: a rank failed or time was up; the message holds each one's end.

    """
    import cloudpickle  # belongs to the chapters' packages, not to those of the book's tools

    packed = cloudpickle.dumps((function, arguments))
    ended = run_ranks(_call, size, packed, timeout_s=timeout_s)
    for rank, (_, text) in enumerate(ended):
        for line in text.splitlines():
            print(f"rank {rank}: {line}")
    return [result for result, _ in ended]


def _nothing() -> None:
    return None


def _call(packed: bytes) -> tuple[Any, str]:
    import cloudpickle

    torch.set_num_threads(1)
    text = io.StringIO()
    with tempfile.TemporaryFile() as noise:
        os.dup2(noise.fileno(), 1)  # gloo announces each connection there
        os.dup2(noise.fileno(), 2)  # torch's warnings, once a rank
        try:
            with contextlib.redirect_stdout(text):
                function, arguments = cloudpickle.loads(packed)  # from our own parent, just now
                result = function(*arguments)
        except BaseException as error:
            sys.stderr.flush()
            noise.seek(0)
            error.add_note(text.getvalue() + noise.read()[-2000:].decode(errors="replace"))
            raise
    return result, text.getvalue()
