"""The program that judges a job's values, run in this process: what it imports is there already."""

import contextlib
import io
import subprocess
import sys
from types import SimpleNamespace
from typing import Any
from unittest import mock

from bookkit.jobs.judge import VALIDATE


def judge_in_this_process() -> SimpleNamespace:
    """As much of the module `subprocess` as `bookkit.jobs.judge` needs."""

    def run(command: list[str], *, cwd: Any, **_: Any) -> subprocess.CompletedProcess[str]:
        assert command[1:3] == ["-c", VALIDATE]
        said, status = io.StringIO(), 0
        with (
            contextlib.chdir(cwd),
            contextlib.redirect_stdout(said),
            mock.patch.object(sys, "argv", ["-c", *command[3:]]),
        ):
            try:
                exec(compile(VALIDATE, "<judge>", "exec"), {"__name__": "__main__"})
            except SystemExit as end:
                status = int(end.code or 0)
            finally:
                sys.modules.pop("train", None)
        return subprocess.CompletedProcess(command, status, said.getvalue(), "")

    return SimpleNamespace(run=run)
