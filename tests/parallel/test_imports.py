"""No module of the trainers or of their back-ends imports, by any way, itself."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("trainers", "parallel", "cluster")
pytestmark = pytest.mark.chapter(33)


def graph():
    """Module to the modules that it imports, inside functions too."""
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for folder in FOLDERS
        for path in (ROOT / "nbkit" / folder).rglob("*.py")
        if path.name != "__init__.py"
    }
    found = {}
    for name, path in files.items():
        imported = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
        found[name] = imported & files.keys()
    return found


def circle(found):
    """The first circle, as a list of modules, or None."""
    done = set()

    def walk(name, way):
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return None
        for other in sorted(found[name]):
            seen = walk(other, [*way, name])
            if seen:
                return seen
        done.add(name)
        return None

    return next((seen for name in sorted(found) if (seen := walk(name, []))), None)


def test_there_is_no_circle():
    found = graph()
    assert len(found) > 90
    assert "nbkit.parallel.checkpoint" in found["nbkit.parallel.base"]
    assert circle(found) is None
    assert circle(found | {"nbkit.parallel.world": {"nbkit.parallel.base"}})
