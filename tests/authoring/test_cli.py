"""The command line: light where it must be, one sentence where the user can mend something."""

import subprocess
import sys
from pathlib import Path

import pytest

from bookkit import cli
from tests.authoring.book import REPOSITORY, Book, one_sentence

HEAVY = ("torch", "numpy", "matplotlib", "transformers", "jupyter_client", "nbformat", "IPython")


def imported_by(*arguments: str) -> tuple[set[str], str]:
    """The heavy packages that a command imports, and its output."""
    script = (
        "import sys\nfrom bookkit import cli\n"
        f"sys.argv = ['nbkit', *{arguments!r}]\n"
        "try:\n    cli.app()\nexcept SystemExit:\n    pass\n"
        f"print('imported:', *[name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return set(done.stdout.rpartition("imported:")[2].split()), done.stdout


def test_help_lists_every_command_and_imports_nothing_heavy():
    imported, output = imported_by("--help")
    assert imported == set()
    for name in (*cli.COMMANDS, *cli.GROUPS):
        assert name in output


@pytest.mark.parametrize("group", sorted(cli.GROUPS))
def test_a_group_is_usable_without_the_heavy_packages(group: str):
    imported, output = imported_by(group, "--help")
    assert imported == set()
    assert "Usage: nbkit" in output


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_every_command_that_is_listed_exists(name: str):
    command = cli.lazy_command(name).loaded()
    assert command.name == name
    assert cli.COMMANDS[name][1].endswith(".")


def test_every_command_of_every_group_loads():
    for name in cli.GROUPS:
        assert cli.lazy_group(name).loaded().commands


def test_a_missing_package_is_one_sentence(book: Book, monkeypatch: pytest.MonkeyPatch):
    for module in [m for m in sys.modules if m.partition(".")[0] == "bookkit" and "page" in m]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.delitem(sys.modules, "bookkit.authoring.quick", raising=False)
    monkeypatch.setitem(sys.modules, "jupytext", None)
    message = one_sentence(book.nbkit("stamp", status=1))
    assert "the package 'jupytext' is not installed here; `make test`" in message


def test_an_unknown_command_says_so_with_status_2(book: Book):
    assert "No such command 'exercute'" in book.nbkit("exercute", status=2)


@pytest.mark.slow
def test_as_a_process_an_expected_error_has_no_traceback(book: Book):
    message = one_sentence(book.process("execute", "notebooks/none.md", status=1))
    assert "notebooks/none.md is not an executed page" in message


def test_chapter_selects_marked_tests(tmp_path: Path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = chapter(n): x\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_x.py").write_text(
        "import pytest\n\n"
        "@pytest.mark.chapter(11)\ndef test_eleven(): pass\n\n"
        "@pytest.mark.chapter(12)\n@pytest.mark.chapter(11)\ndef test_both(): pass\n\n"
        "def test_none(): pass\n"
    )

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-p", "bookkit.authoring.suite.plugin", f"--rootdir={tmp_path}", *arguments]
        return subprocess.run(
            [*command, "tests"], cwd=tmp_path, capture_output=True, text=True
        ).stdout

    assert "2 passed, 1 deselected" in run("--chapter", "11")
    assert "1 passed, 2 deselected" in run("--chapter", "12")
    assert "3 passed" in run()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["book", "PYTHON=false"], "The book needs Python 3.11 or newer"),
        (["test", "PYTHON=no-such-python"], "no-such-python is missing or older"),
        (["study"], "Say which study: make study NAME="),
    ],
)
def test_make_explains_itself(tmp_path: Path, arguments: list[str], message: str):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text((REPOSITORY / name).read_text())
    if arguments == ["study"]:
        environment = tmp_path / ".venv"
        (environment / "bin").mkdir(parents=True)
        (environment / "bin/python").write_text("")
        (environment / "installed-all").write_text("")
    done = subprocess.run(["make", *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert message in done.stdout + done.stderr
    assert not (tmp_path / ".venv/lib").exists()


def test_make_lists_every_target():
    makefile = (REPOSITORY / "Makefile").read_text()
    phony = next(line for line in makefile.splitlines() if line.startswith(".PHONY: help"))
    done = subprocess.run(["make"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    for target in [t for t in phony.split()[2:] if "-" not in t]:
        assert f"make {target}" in done.stdout
