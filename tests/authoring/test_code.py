"""The code that a study reaches, and what counts as a change of it."""

from pathlib import Path

import pytest

from bookkit.authoring.code import changes, code_of, is_program, script_of
from bookkit.authoring.reach import Finder

SCRIPT = '''"""A study."""
from nbkit import losses
from nbkit.losses import loss
from studies._frame import Frame
from studies._shared import scale

SEEDS = (1, 2)


def run_arm(seed):
    """One run."""
    return scale(loss(seed))


def head():
    from nbkit.only_head import shown
    return {"x": shown()}


def measure(out):
    print([run_arm(seed) for seed in SEEDS])


TOLERANCES = {"x": 1.0}
STUDY = Frame(__file__, measure, head, TOLERANCES)
if __name__ == "__main__":
    STUDY.main()
'''
LAZY = """from importlib import import_module

_LAZY = {"record": "nbkit.only_head"}


def __getattr__(name):
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(name)
"""
FILES = {
    "nbkit/__init__.py": LAZY,
    "nbkit/losses.py": "def loss(x):\n    return 2 * x\n\n\ndef other(x):\n    return x\n",
    "nbkit/only_head.py": "def shown():\n    return 1\n",
    "studies/_frame.py": "class Frame:\n    def __init__(self, *a): ...\n    def main(self): ...\n",
    "studies/_shared.py": "FACTOR = 3\n\n\ndef scale(x):\n    return FACTOR * x\n",
    "studies/curve.py": SCRIPT,
}


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        write(tmp_path, name, text)
    return tmp_path


def symbols(root: Path) -> dict[str, str]:
    return code_of(root, root / "studies/curve.py")["symbols"]


def test_what_a_study_reaches_without_its_head_and_frame(root: Path) -> None:
    found = {name for name in symbols(root) if not name.endswith("(import)")}
    assert found == {
        "nbkit.losses.loss",
        "studies._shared.FACTOR",
        "studies._shared.scale",
        "studies.curve.SEEDS",
        "studies.curve.measure",
        "studies.curve.run_arm",
    }


@pytest.mark.parametrize(
    ("name", "old", "new", "changed"),
    [
        ("nbkit/losses.py", "2 * x", "3 * x", ["nbkit.losses.loss"]),
        ("nbkit/losses.py", "    return x\n", "    return -x\n", []),  # it is not reached
        ("nbkit/losses.py", "    return 2 * x", '    """Doc."""\n    return (2 * x)  # two', []),
        ("studies/_shared.py", "FACTOR = 3", "FACTOR = 4", ["studies._shared.FACTOR"]),
        ("studies/_frame.py", "class Frame:", "class Frame:\n    x = 1", []),
        ("studies/curve.py", "(1, 2)", "(1, 3)", ["studies.curve.SEEDS"]),
        ("studies/curve.py", '"x": shown()', '"x": 2 * shown()', []),
        ("studies/curve.py", '{"x": 1.0}', '{"x": 2.0}', []),
        ("nbkit/only_head.py", "return 1", "return 2", []),
        ("nbkit/__init__.py", '"record"', '"other"', []),  # a name for pages
        ("nbkit/losses.py", "def loss(", "def cost(", ["nbkit.losses.loss"]),
    ],
)
def test_what_is_a_change(root: Path, name: str, old: str, new: str, changed: list[str]) -> None:
    before = symbols(root)
    text = FILES[name]
    assert old in text
    write(root, name, text.replace(old, new, 1))
    found = changes(before, symbols(root))
    assert [symbol for symbol in found if not symbol.endswith("(import)")] == changed


def test_what_moved_has_not_changed_unless_it_did(root: Path) -> None:
    before = symbols(root)
    write(root, "nbkit/better.py", FILES["nbkit/losses.py"])
    write(root, "studies/curve.py", SCRIPT.replace("nbkit.losses", "nbkit.better"))
    assert changes(before, symbols(root)) == []
    write(root, "nbkit/better.py", FILES["nbkit/losses.py"].replace("2 * x", "4 * x"))
    assert changes(before, symbols(root)) == ["nbkit.losses.loss"]


@pytest.mark.parametrize(
    ("then", "now", "changed"),
    [
        ({"a.f": "1"}, {"a.f": "1", "a.g": "2"}, []),  # what is new was called by what changed
        ({"a.f": "1"}, {}, ["a.f"]),
        ({"a.f": "1"}, {"b.f": "1"}, []),
        ({"a.f": "1"}, {"b.f": "2"}, ["a.f"]),
        # an import of our own code: what counts is where it leads
        ({"a.f": "1", "x.f (import)": "i"}, {"b.f": "1", "x.f (import)": "j"}, []),
        (
            {"a.f": "1", "x.f (import)": "i"},
            {"a.f": "1", "b.f": "2", "x.f (import)": "j"},
            ["x.f (import)"],
        ),
        # of a library: the same function under another name is another function
        ({"x.sqrt (import)": "i"}, {"x.sqrt (import)": "j"}, ["x.sqrt (import)"]),
        ({"x.sqrt (import)": "i"}, {}, []),
        ({"x.sqrt (import)": "i"}, {"y.sqrt (import)": "i"}, []),
        ({"x.sqrt (import)": "i"}, {"y.sqrt (import)": "j"}, ["x.sqrt (import)"]),
    ],
)
def test_which_symbols_have_changed(
    then: dict[str, str], now: dict[str, str], changed: list[str]
) -> None:
    assert changes(then, now) == changed


def test_a_program_that_another_starts_is_reached(root: Path) -> None:
    write(root, "benchmarks/speed.py", 'import subprocess\n\nWORKER = "worker.py"\n')
    write(root, "benchmarks/worker.py", "from nbkit.losses import other\n\nprint(other(1))\n")
    found = code_of(root, root / "benchmarks/speed.py")["symbols"]
    assert "nbkit.losses.other" in found and "benchmarks.speed.WORKER" in found


def test_neighbours_may_be_imported_by_their_bare_names(root: Path) -> None:
    """As the studies did before they shared a frame."""
    write(root, "studies/curve.py", SCRIPT.replace("studies._shared", "_shared"))
    assert "studies._shared.FACTOR" in symbols(root)


def test_one_finder_for_many_programs_gives_what_each_gives_alone(root: Path) -> None:
    """It remembers statements by their identity, which Python gives away again."""
    for number in range(40):
        extra = "".join(f"V{i} = {i + number}\n" for i in range(number))
        write(root, f"studies/s{number}.py", SCRIPT + extra)
    finder = Finder(root)
    for path in sorted((root / "studies").glob("[!_]*.py")):
        assert code_of(root, path, finder) == code_of(root, path)


def test_the_program_of_a_result(root: Path) -> None:
    write(root, "cluster_scripts/job/train.py", "")
    for result, script in {
        "studies/results/curve.json": "studies/curve.py",
        "studies/results/curve_gpu.json": "studies/curve.py",
        "cluster_scripts/job/results/h200/sft/result.json": "cluster_scripts/job/train.py",
        "cluster_scripts/job/results/h200/seed_1.json": "cluster_scripts/job/train.py",
    }.items():
        assert script_of(root, root / result) == root / script
    assert script_of(root, root / "studies/results/gone.json") is None
    assert is_program(root, root / "studies/curve.py")
    assert not is_program(root, root / "tests/test_x.py") and not is_program(root, Path("/x.py"))
