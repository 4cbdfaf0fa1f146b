"""The import graph, by which stamps know what a page depends on."""

from pathlib import Path

import pytest

from nbkit.authoring.imports import ImportGraph
from tests.authoring.book import Book


@pytest.fixture
def graph(tmp_path: Path) -> ImportGraph:
    package = Book(tmp_path)
    package.write(
        "nbkit/__init__.py",
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from nbkit.heavy import check\n"
        '_LAZY = {"check": ("nbkit.lazy", "check")}\n',
    )
    package.write("nbkit/lazy.py", "from nbkit import base\n")
    package.write("nbkit/base.py", "")
    package.write("nbkit/heavy.py", "")
    package.write("nbkit/parts/__init__.py", "")
    package.write("nbkit/parts/one.py", "from . import two\nfrom .. import base\n")
    package.write("nbkit/parts/two.py", "def late():\n    import nbkit.heavy\n")
    package.write("nbkit/parts/words.txt", "a b c\n")
    return ImportGraph(tmp_path)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import torch", set()),
        ("import nbkit", {"nbkit"}),
        ("from nbkit.base import x", {"nbkit", "nbkit.base"}),
        ("from nbkit import base as b", {"nbkit", "nbkit.base"}),
        ("import nbkit\nnbkit.check(1)", {"nbkit", "nbkit.lazy", "nbkit.base"}),
        ("from nbkit import check", {"nbkit", "nbkit.lazy", "nbkit.base"}),
        ("import nbkit\nnbkit.base.f(nbkit.base.g)", {"nbkit", "nbkit.base"}),
        ("from nbkit.parts import two", {"nbkit", "nbkit.parts", "nbkit.parts.two", "nbkit.heavy"}),
        (
            "from nbkit.parts.one import f",
            {"nbkit", "nbkit.parts", "nbkit.parts.one", "nbkit.parts.two"}
            | {"nbkit.base", "nbkit.heavy"},
        ),
        ("%matplotlib inline\n!ls\nfrom nbkit import base", {"nbkit", "nbkit.base"}),
        ("def f():\n    from nbkit import base", {"nbkit", "nbkit.base"}),
        ("this is not Python", set()),
    ],
)
def test_closure(graph: ImportGraph, source: str, found: set[str]):
    assert graph.closure([source]) == found


def test_digests_cover_sources_and_the_data_beside_them(graph: ImportGraph):
    before = graph.digests({"nbkit.parts.two", "nbkit.base"})
    assert set(before) == {"nbkit.base", "nbkit.parts.two", "nbkit/parts/words.txt"}
    (graph.root / "nbkit/parts/words.txt").write_text("a b d\n")
    after = graph.digests({"nbkit.parts.two", "nbkit.base"})
    assert {name for name in before if before[name] != after[name]} == {"nbkit/parts/words.txt"}
