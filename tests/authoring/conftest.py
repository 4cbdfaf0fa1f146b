"""Fixtures of the authoring tests."""

import json
import shutil
from pathlib import Path

import pytest

from tests.authoring.book import STAMP, Book, code

CHAPTER = "notebooks/01_small.md"
NOTEBOOK = "notebooks/01_small.ipynb"


@pytest.fixture(autouse=True)
def no_rounding_of_the_caller_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests say themselves under which roundings a page runs."""
    for variable in ("ATEN_CPU_CAPABILITY", "MKL_CBWR"):
        monkeypatch.delenv(variable, raising=False)


def make_book(root: Path) -> Book:
    """A book with a tiny package of its own, one study's result and one chapter."""
    made = Book(root)
    made.write("pyproject.toml", '[project]\nname = "small-book"\nversion = "0"\n')
    made.write("nbkit/__init__.py", "")
    made.write("nbkit/losses.py", '"""Losses."""\n\n\ndef loss(x):\n    return 2 * x\n')
    made.write(
        "nbkit/extra.py",
        "from nbkit.losses import loss\n\n\ndef twice(x):\n    return loss(loss(x))\n",
    )
    made.write("nbkit/unused.py", "VALUE = 1\n")
    made.write("studies/results/curve.json", json.dumps({"stamp": STAMP, "reward": [1, 2]}))
    imports = "import json\nfrom pathlib import Path\n\nfrom nbkit.extra import twice"
    made.page(
        CHAPTER,
        "\n".join(
            [
                "# A small chapter\n\nIts first prose.\n",
                code(f"{imports}\n\ntwice(3)"),
                "More prose.\n",
                code('json.loads(Path("../studies/results/curve.json").read_text())["reward"]'),
            ]
        ),
        title="A small chapter",
        short_title="Small",
    )
    return made


@pytest.fixture
def book(tmp_path: Path) -> Book:
    """A small book whose chapter has not been executed."""
    return make_book(tmp_path / "book")


@pytest.fixture(scope="session")
def executed_once(tmp_path_factory: pytest.TempPathFactory) -> Book:
    """The small book, executed; not to be changed."""
    made = make_book(tmp_path_factory.mktemp("executed") / "book")
    made.nbkit("execute")
    return made


@pytest.fixture
def executed(executed_once: Book, tmp_path: Path) -> Book:
    """A copy of the small book whose chapter has been executed."""
    return Book(Path(shutil.copytree(executed_once.root, tmp_path / "book")))
