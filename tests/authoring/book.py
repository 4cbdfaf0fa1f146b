"""A small book in a temporary folder, for the tests of the authoring tools."""

import contextlib
import io
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import yaml

from bookkit import cli

REPOSITORY = Path(__file__).resolve().parents[2]
# Of a recorded result: all that its reader asks for.
STAMP: dict[str, object] = {
    **{"commit": "abcdef0", "clean": True, "seeds": [1], "config": {}, "packages": {}},
    **{"started": "2026-01-01T10:00", "ended": "2026-01-01T11:00", "device_name": "a processor"},
}
FRONT = {
    "title": "A page",
    "jupytext": {"text_representation": {"extension": ".md", "format_name": "myst"}},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
}


@dataclass(frozen=True)
class Book:
    """The folder of a small book, and the means to write to it and run commands in it."""

    root: Path

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def page(self, name: str, body: str, **front: object) -> Path:
        header = yaml.safe_dump(FRONT | front, sort_keys=False)
        return self.write(name, f"---\n{header}---\n\n{body.strip()}\n")

    def read(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8")

    def notebook(self, name: str) -> dict:
        return json.loads(self.read(name))

    def save_notebook(self, name: str, notebook: dict) -> None:
        self.write(name, json.dumps(notebook))

    def edit_notebook(self, name: str, old: str, new: str) -> None:
        """Edit a cell as a person in JupyterLab does."""
        notebook = self.notebook(name)
        for cell in notebook["cells"]:
            source = "".join(cell["source"])
            if old in source:
                cell["source"] = source.replace(old, new)
                break
        else:
            raise AssertionError(f"no cell of {name} holds {old!r}")
        self.save_notebook(name, notebook)

    def nbkit(self, *arguments: str, status: int = 0) -> str:
        """Run a command in the book, in this process; its output, its exit status checked."""
        output = io.StringIO()
        with (
            contextlib.chdir(self.root),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(output),
            mock.patch.object(sys, "argv", ["nbkit", *arguments]),
        ):
            try:
                cli.app()
                code: object = 0
            except SystemExit as end:
                code = end.code or 0
        assert code == status, f"exit status {code}\n{output.getvalue()}"
        return output.getvalue()

    def process(self, *arguments: str, status: int = 0) -> str:
        """Run a command in the book as a user does, in a process of its own."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "bookkit.cli", *arguments],
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
        assert done.returncode == status, f"exit status {done.returncode}\n{done.stdout}"
        return done.stdout


def code(source: str, tags: str = "") -> str:
    """A code cell as MyST text."""
    head = f":tags: [{tags}]\n\n" if tags else ""
    return f"```{{code-cell}} ipython3\n{head}{source.strip()}\n```\n"


def one_sentence(output: str) -> str:
    """The message of an expected error, after checking that it is one line and no traceback."""
    lines = [line for line in output.splitlines() if line.startswith("nbkit: ")]
    assert len(lines) == 1, output
    assert "Traceback" not in output, output
    return lines[0].removeprefix("nbkit: ")
