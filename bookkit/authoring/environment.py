"""The environment in which every page runs, when it is executed and when it is tested."""

import os
import sys
from pathlib import Path

STRICT_FOLDER = "solutions"


def page_environment(root: Path, page: Path) -> dict[str, str]:
    """The environment variables of a page's kernel.

    One thread, a fixed hash seed, no network for models, the checkout's own package first, and
    `NBKIT_STRICT` for the solutions, so that a failed check stops the page.
    """
    variables = dict(os.environ)
    for name in ("NBKIT_STRICT", "NBKIT_PAGE", "NBKIT_RECORD"):
        variables.pop(name, None)
    paths = [str(root), variables.get("PYTHONPATH", "")]
    variables |= {
        "DS_ACCELERATOR": variables.get("DS_ACCELERATOR", "cpu"),  # else its import warns on a page
        "HF_HUB_OFFLINE": "1",
        "JUPYTER_PREFER_ENV_PATH": "1",
        "MUJOCO_GL": variables.get("MUJOCO_GL", "egl"),
        "OMP_NUM_THREADS": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "TOKENIZERS_PARALLELISM": "false",
    }
    if page.relative_to(root).parts[0] == STRICT_FOLDER:
        variables["NBKIT_STRICT"] = "1"
    return variables


def python_command(*arguments: str) -> list[str]:
    """The command line that runs this very Python, without a script's folder on its path."""
    return [sys.executable, "-u", "-P", *arguments]
