"""The order of the rooms: import-linter holds the code to it, and finds what breaks it."""

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bookkit.site.pictures.rooms import MATHEMATICS, rooms, tools

ROOT = Path(__file__).parents[1]
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def lint(folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache", "--no-logo"],
        cwd=folder, capture_output=True, text=True, env={"PYTHONPATH": str(folder), "PATH": ""},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The packages without their data, and the contracts."""
    keep = shutil.ignore_patterns("__pycache__", "*.xml", "*.j2", "*.sh")
    for name in ("nbkit", "bookkit"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=keep)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "line", "says"),
    [
        ("nbkit/masks.py", "from nbkit import trainers", "nbkit.masks is not allowed to import"),
        ("nbkit/text/rollouts.py", "import nbkit.cluster.job", "nbkit.text is not allowed"),
        ("nbkit/parallel/world.py", "from nbkit.parallel import base", "No cycles are allowed"),
        ("nbkit/runs/run.py", "def f():\n    import bookkit.cli", "nbkit is not allowed to import"),
    ],
)
def test_what_breaks_the_order_is_named(copy: Path, file: str, line: str, says: str) -> None:
    with (copy / file).open("a", encoding="utf-8") as text:
        text.write(f"\n\n{line}\n")
    status, output = lint(copy)
    assert status == 1 and says in output, output


@pytest.mark.slow
def test_a_new_room_must_have_its_place(copy: Path) -> None:
    (copy / "nbkit" / "attic").mkdir()
    (copy / "nbkit" / "attic" / "__init__.py").write_text("")
    status, output = lint(copy)
    assert status == 1 and "attic" in output, output


@pytest.mark.slow
def test_the_code_keeps_the_order(copy: Path) -> None:
    status, output = lint(copy)
    assert status == 0 and "0 broken" in output, output


def test_no_module_is_long() -> None:
    """One idea each: what does not fit into 300 lines is several."""
    lengths = {
        path.relative_to(ROOT): len(path.read_text(encoding="utf-8").splitlines())
        for path in (ROOT / "nbkit").rglob("*.py")
    }
    assert len(lengths) > 200
    assert {str(path): lines for path, lines in lengths.items() if lines > 300} == {}


def room_of(name: str) -> str:
    """The room of a dotted name that can be imported."""
    module, _, attribute = name.rpartition(".")
    assert hasattr(importlib.import_module(module), attribute), name
    second = name.split(".")[1]
    return second if second in {*rooms(), *tools()} else MATHEMATICS


def test_a_newcomer_guesses_the_room_of_nineteen_things_in_twenty() -> None:
    """Guesses are by the words of the table; what moves, or a room that is renamed, shows here."""
    text = (ROOT / "tests" / "rooms_of_things.yml").read_text(encoding="utf-8")
    things = yaml.safe_load(text)
    assert len(things) == 20 == len({one["thing"] for one in things})
    assert {one["guess"] for one in things} <= {*rooms(), *tools(), MATHEMATICS}
    missed = [one["thing"] for one in things if one["guess"] != room_of(one["is"])]
    assert missed == ["the pendulum for many environments at once"]


LANGUAGE = ("sft", "reward_model", "dpo", "grpo", "rlhf", "reinforce")


@pytest.mark.parametrize("name", LANGUAGE)
def test_a_trainer_of_language_models_needs_no_simulator(name: str) -> None:
    code = (
        f"import sys; import nbkit.trainers.{name}; "
        "print(*sorted({'gymnasium', 'mujoco'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.stdout.strip() == ""
