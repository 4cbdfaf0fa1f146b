"""What a piece of code reaches, and what an edit of the checkout changes of it."""

from pathlib import Path

import pytest

from bookkit.authoring.reach import Finder
from bookkit.authoring.reach.ran import missed, ran_symbols, read_notes
from tests.authoring.book import Book

FILES = {
    "nbkit/__init__.py": """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from nbkit.tools import check as check
_LAZY = {"check": ("nbkit.tools", "check")}
def __getattr__(name):
    return _LAZY[name]
""",
    "nbkit/tools.py": """
from nbkit import base
def check(name, function):
    return base.half(2)
def unused():
    return base.TABLE
""",
    "nbkit/base.py": '''
import math
TABLE = {"a": lambda x: twice(x)}
LIMIT = 3
def twice(x: "Batch"):
    """Twice x."""
    return 2 * x  # a comment
def half(x):
    if x > LIMIT:
        return math.sqrt(x)
    return x / 2
class Batch:
    """A batch."""
    size: int = LIMIT
    def rows(self):
        return half(self.size)
    def halves(self):
        return 0
class Small(Batch):
    pass
def shadows(half):
    TABLE = half
    return [twice for twice in TABLE]
''',
    "nbkit/registry.py": """
from importlib import import_module
from nbkit.base import half
NAMES = {}
def register(function):
    NAMES[function.__name__] = function
    return function
@register
def listed():
    return half(1)
def load():
    return import_module("nbkit.plugins")
""",
    "nbkit/plugins.py": "VALUE = 1\ndef plug():\n    return VALUE\n",
    "nbkit/parts/__init__.py": "from nbkit.parts.one import first\n",
    "nbkit/parts/one.py": (
        "from . import two\nfrom .. import base\ndef first():\n    return two.late()\n"
    ),
    "nbkit/parts/two.py": "def late():\n    from nbkit.base import half\n    return half\n",
    "nbkit/patches.py": "import nbkit.base\nnbkit.base.half = lambda x: x\n",
    "exercises/checks/01/one_sum_1.py": """
from nbkit.base import half
from pairs import pair
def oracle(x):
    return half(x)
CHECK = Check(id="one.sum.1", oracle=oracle, cases=pair)
UNUSED = 1
""",
    "exercises/checks/01/one_other_1.py": "CHECK = Check(id='one.other.1', oracle=None)\n",
    "exercises/checks/01/pairs.py": "def pair():\n    return 1\ndef unused():\n    return 2\n",
    "studies/_frame.py": "from nbkit.base import half\ndef frame():\n    return half(1)\n",
    "studies/curve.py": """
from _frame import frame
def unused_here():
    return 1
if __name__ == "__main__":
    frame()
""",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Book:
    book = Book(tmp_path)
    for name, text in FILES.items():
        book.write(name, text.lstrip("\n"))
    return book


def reach(book: Book, *sources: str) -> dict[str, str]:
    return Finder(book.root).reach(sources=sources).symbols


def names(book: Book, *sources: str) -> set[str]:
    return {name for name in reach(book, *sources) if "(" not in name}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import torch", set()),
        ("from nbkit.base import twice", set()),
        ("from nbkit.base import twice\ntwice(1)", {"nbkit.base.twice"}),
        ("import nbkit.base as b\nb.half(1)", {"nbkit.base.half", "nbkit.base.LIMIT"}),
        ("import nbkit.base\nnbkit.base.LIMIT", {"nbkit.base.LIMIT"}),
        (
            "from nbkit.base import Small\nSmall()",
            {f"nbkit.base.{n}" for n in ("Small", "Batch", "half", "LIMIT")},
        ),
        ("from nbkit.base import TABLE\nTABLE", {"nbkit.base.TABLE", "nbkit.base.twice"}),
        ("from nbkit.base import shadows\nshadows(1)", {"nbkit.base.shadows"}),
        (
            "import nbkit\nnbkit.check('x', 1)",
            {"nbkit.__getattr__", "nbkit._LAZY", "nbkit.tools.check"}
            | {"nbkit.base.half", "nbkit.base.LIMIT"},
        ),
        (
            "from nbkit.parts import first\nfirst()",
            {"nbkit.parts.one.first", "nbkit.parts.two.late", "nbkit.__getattr__", "nbkit._LAZY"}
            | {"nbkit.base.half", "nbkit.base.LIMIT"},
        ),
        (
            "def f():\n    from nbkit.base import half as h\n    return h(1)",
            {"nbkit.base.half", "nbkit.base.LIMIT"},
        ),
        ("%matplotlib inline\n!ls\nfrom nbkit.base import LIMIT\nLIMIT", {"nbkit.base.LIMIT"}),
        ("run(['-m', 'nbkit.plugins'])", {"nbkit.plugins.VALUE", "nbkit.plugins.plug"}),
        ("patch('nbkit.base.LIMIT', 4)", {"nbkit.base.LIMIT"}),
        ("code = '''from nbkit.base import LIMIT\nprint(LIMIT)'''", {"nbkit.base.LIMIT"}),
        (
            "check('one.sum.1', f)",
            {"exercises.checks.01.one_sum_1.CHECK", "exercises.checks.01.one_sum_1.oracle"}
            | {"exercises.checks.01.pairs.pair", "nbkit.base.half", "nbkit.base.LIMIT"},
        ),
        ("this is not Python", set()),
    ],
)
def test_what_is_reached(checkout: Book, source: str, found: set[str]):
    assert names(checkout, source) == found


def test_cells_share_their_imports(checkout: Book):
    # Python asks `nbkit.__getattr__` for `base` before it loads the submodule.
    lazy = {"nbkit.__getattr__", "nbkit._LAZY"}
    assert names(checkout, "from nbkit import base", "base.LIMIT") == {"nbkit.base.LIMIT"} | lazy


def test_importing_a_module_reaches_what_it_does_then(checkout: Book):
    found = reach(checkout, "import nbkit.registry")
    assert "nbkit.registry (on import)" in found
    assert {"nbkit.registry.register", "nbkit.registry.NAMES", "nbkit.base.half"} <= set(found)
    assert "nbkit.plugins.plug" not in found
    assert "nbkit.plugins.plug" in reach(checkout, "from nbkit.registry import load\nload()")


def test_a_module_that_patches_another_is_seen(checkout: Book):
    before = reach(checkout, "import nbkit.patches")
    checkout.write("nbkit/patches.py", "import nbkit.base\nnbkit.base.half = lambda x: 2 * x\n")
    assert reach(checkout, "import nbkit.patches") != before


def test_a_study_finds_its_neighbours(checkout: Book):
    script = checkout.root / "studies/curve.py"
    found = Finder(checkout.root).reach(scripts=[script])
    assert {"studies.curve", "studies._frame.frame", "nbkit.base.half"} <= set(found.symbols)
    assert "studies._frame" in found.modules


SOURCE = "from nbkit.base import twice, Batch\ntwice(Batch().rows())"


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ('"""Twice x."""', '"""Two times x."""', set()),
        ("  # a comment", "", set()),
        ("return 2 * x", "return (2\n        * x)", set()),
        ('"""A batch."""\n    ', "", set()),
        ("return 2 * x", "return 2 * x + 0", {"nbkit.base.twice"}),
        ("LIMIT = 3", "LIMIT = 4", {"nbkit.base.LIMIT"}),
        ("return x / 2", "return x * 0.5", {"nbkit.base.half"}),
        ("return 0", "return 1", {"nbkit.base.Batch"}),
        ("twice(x)}", "twice(2 * x)}", set()),
        ("class Small(Batch):", "class Tiny(Batch):", set()),
    ],
)
def test_what_an_edit_changes(checkout: Book, old: str, new: str, changed: set[str]):
    before = reach(checkout, SOURCE)
    text = checkout.read("nbkit/base.py")
    assert old in text
    checkout.write("nbkit/base.py", text.replace(old, new))
    after = reach(checkout, SOURCE)
    assert {name for name in before | after if before.get(name) != after.get(name)} == changed


def test_a_renamed_function_is_absent(checkout: Book):
    text = checkout.read("nbkit/base.py").replace("def twice", "def double")
    checkout.write("nbkit/base.py", text)
    assert reach(checkout, SOURCE)["nbkit.base.twice"] == "absent"


def test_a_name_that_an_import_points_elsewhere_is_a_change(checkout: Book):
    source = "from nbkit.parts import first\nfirst()"
    before = reach(checkout, source)
    checkout.write("nbkit/parts/other.py", FILES["nbkit/parts/one.py"])
    checkout.write("nbkit/parts/__init__.py", "from nbkit.parts.other import first\n")
    assert reach(checkout, source) != before


@pytest.mark.parametrize("how", ["nbkit.show(twice)", "inspect.getsource(twice)", "twice.__doc__"])
def test_what_is_shown_counts_as_written(checkout: Book, how: str):
    source = f"from nbkit.base import twice\n{how}"
    before = reach(checkout, source)
    text = checkout.read("nbkit/base.py").replace("Twice x.", "Two times x.")
    checkout.write("nbkit/base.py", text)
    after = reach(checkout, source)
    assert {n for n in before if before[n] != after[n]} == {"nbkit.base.twice (as shown)"}


def test_a_shown_method_is_not_its_whole_class(checkout: Book):
    source = "from nbkit.base import Batch\nnbkit.show(Batch.rows)"
    before = reach(checkout, source)
    assert "nbkit.base.Batch.rows (as shown)" in before
    text = checkout.read("nbkit/base.py").replace('"""A batch."""', '"""Rows."""')
    checkout.write("nbkit/base.py", text)
    assert reach(checkout, source) == before


def test_what_ran_and_is_not_reached_is_missed(checkout: Book, tmp_path: Path):
    notes = tmp_path / "notes"
    notes.mkdir()
    text = checkout.read("nbkit/base.py").splitlines()
    twice = next(i for i, line in enumerate(text, 1) if line.startswith("def twice"))
    half = next(i for i, line in enumerate(text, 1) if line.startswith("def half"))
    table = next(i for i, line in enumerate(text, 1) if line.startswith("TABLE"))
    lines = [
        f"nbkit/base.py\t{line}\t{how}"
        for line, how in [(1, "import"), (twice, "call"), (half, "import"), (table, "call")]
    ]
    (notes / "1.txt").write_text("\n".join(lines) + "\n")
    finder = Finder(checkout.root)
    ran = ran_symbols(finder, read_notes(notes))
    assert ran == ["nbkit.base.TABLE", "nbkit.base.twice"]
    reached = finder.reach(sources=["from nbkit.base import twice\ntwice(1)"])
    assert missed(finder, reached, ran) == ["nbkit.base.TABLE"]
    assert missed(finder, reached, ran[1:]) == []
    assert missed(finder, reached, ["nbkit.base.renamed"]) == []  # its callers are stale instead


def test_a_function_that_sets_a_global_is_known_by_its_own_name(checkout: Book):
    checkout.write("nbkit/state.py", "X = None\ndef load():\n    global X\n    X = 1\n")
    finder = Finder(checkout.root)
    ran = ran_symbols(finder, [("nbkit/state.py", 2, "call")])
    assert ran == ["nbkit.state.load"]
    assert missed(finder, finder.reach(sources=["from nbkit.state import load\nload()"]), ran) == []


def test_what_was_asked_before_changes_nothing(checkout: Book):
    finder = Finder(checkout.root)
    sources = [f"from nbkit.base import {name}\n{name}" for name in ("half", "twice", "Small")]
    alone = [Finder(checkout.root).reach(sources=[source]).symbols for source in sources]
    for _ in range(3):
        assert [finder.reach(sources=[source]).symbols for source in sources] == alone


def test_what_an_import_registers_is_reached_with_it(checkout: Book):
    finder = Finder(checkout.root)
    reached = finder.reach(sources=["import nbkit.registry\nnbkit.registry.NAMES['listed']()"])
    ran = ["nbkit.registry.listed", "nbkit.registry.load"]
    assert missed(finder, reached, ran) == ["nbkit.registry.load"]
