"""`nbkit lab`: JupyterLab for this book, with its settings kept in the checkout."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from bookkit.authoring.repository import write_atomically

SETTINGS_FOLDER = Path(".nbkit/jupyter")
# What differs from JupyterLab's own defaults. A reader's own changes are kept.
LAB_SETTINGS: dict[str, dict[str, Any]] = {
    "@jupyterlab/docmanager-extension/plugin.jupyterlab-settings": {
        "defaultViewers": {"markdown": "Jupytext Notebook", "myst": "Jupytext Notebook"}
    },
    "@jupyterlab/apputils-extension/notification.jupyterlab-settings": {
        "checkForUpdates": False,
        "fetchNews": "false",
    },
}


def prepare(root: Path) -> Path:
    """Write the settings that are missing.

    Returns:
        The folder for `JUPYTER_CONFIG_DIR`.
    """
    folder = root / SETTINGS_FOLDER
    for name, wanted in LAB_SETTINGS.items():
        path = folder / "lab" / "user-settings" / name
        there = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if wanted.keys() - there.keys():
            write_atomically(path, json.dumps(wanted | there, indent=2) + "\n")
    return folder


def lab_environment(folder: Path) -> dict[str, str]:
    """The environment of the server and its kernels: a page's own, with the network left on."""
    defaults = {
        "MUJOCO_GL": "egl",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "TOKENIZERS_PARALLELISM": "false",
    }
    ours = {"JUPYTER_CONFIG_DIR": str(folder), "JUPYTER_PREFER_ENV_PATH": "1"}
    return defaults | dict(os.environ) | ours


def lab_command(root: Path, arguments: list[str]) -> list[str]:
    """The command line of the server: its root is the checkout, and it opens at the chapters."""
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={root}"]
    command.append("--LabApp.default_url=/lab/tree/notebooks")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    return command + arguments


def start(root: Path, arguments: list[str]) -> None:
    """Become JupyterLab: this process is replaced, so that stopping it stops the server."""
    folder = prepare(root)
    command = lab_command(root, arguments)
    os.chdir(root)
    os.execve(command[0], command, lab_environment(folder))
