"""`nbkit lab`: JupyterLab for this book, with its settings kept in the checkout."""

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from bookkit.authoring import lab_kernel
from bookkit.authoring.notebook_file import notebook_text
from bookkit.authoring.page import Cell, Content, notebook_of_content
from bookkit.authoring.repository import write_atomically

CONTENTS = "bookkit.authoring.lab_contents.BookContents"
TEXTS = "NBKIT_LAB_TEXTS"  # set: the list shows text pages beside their notebooks
DESK = "desk.ipynb"
DESK_TEXT = """# Your desk

Run the cell: it shows what is done in each chapter, which exercise comes next, and what passes do
not prove. `nbkit.solution("ID")` shows a solution after a try, and `nbkit exercises reset ID`, in a
terminal, puts one exercise back and keeps what you had written."""
DESK_CODE = "import nbkit\n\nnbkit.desk()"
FIRST_PORT = 8888  # JupyterLab's own
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
    # Names of pages are long; the columns beside them are not worth cutting them off.
    "@jupyterlab/filebrowser-extension/browser.jupyterlab-settings": {
        "showLastModifiedColumn": False
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


def write_desk(root: Path) -> Path:
    """Write the page that shows a learner where they stand; one that is there stays as it is."""
    path = root / DESK
    if not path.exists():
        content = Content({}, {}, (Cell("markdown", DESK_TEXT), Cell("code", DESK_CODE)))
        write_atomically(path, notebook_text(notebook_of_content(content, key=DESK)))
    return path


def lab_environment(folder: Path) -> dict[str, str]:
    """The environment of the server and its kernels: a page's own, with the network left on."""
    defaults = {
        "MUJOCO_GL": "egl",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "TOKENIZERS_PARALLELISM": "false",
    }
    ours = {"JUPYTER_CONFIG_DIR": str(folder), "JUPYTER_PREFER_ENV_PATH": "1"}
    ours["PYTHONSTARTUP"] = str(Path(lab_kernel.__file__))
    if "PYTHONSTARTUP" in os.environ:
        ours[lab_kernel.NEXT] = os.environ["PYTHONSTARTUP"]
    return defaults | dict(os.environ) | ours


def lab_command(root: Path, arguments: list[str]) -> list[str]:
    """The command line of the server: its root is the checkout, and it opens at the chapters."""
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={root}"]
    command.append("--LabApp.default_url=/lab/tree/notebooks")
    command.append(f"--ServerApp.contents_manager_class={CONTENTS}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    return command + arguments


def taken_port_line(arguments: list[str]) -> str | None:
    """A sentence if JupyterLab will not find its usual port free; None if it will, or asks no."""
    if any("port" in argument.partition("=")[0] for argument in arguments):
        return None
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", FIRST_PORT)):
            return None
    return (
        f"Port {FIRST_PORT} is taken, perhaps by another JupyterLab: this one takes the next that "
        "is free; open the address that it prints."
    )


def start(root: Path, arguments: list[str], *, texts: bool = False) -> None:
    """Become JupyterLab: this process is replaced, so that stopping it stops the server.

    Args:
        root: the checkout.
        arguments: for JupyterLab.
        texts: whether the list shows text pages beside the notebooks that were made of them.
    """
    folder = prepare(root)
    write_desk(root)
    command = lab_command(root, arguments)
    line = taken_port_line(arguments)
    if line is not None:
        print(line, flush=True)
    os.chdir(root)
    environment = lab_environment(folder) | ({TEXTS: "1"} if texts else {})
    os.execve(command[0], command, environment)
