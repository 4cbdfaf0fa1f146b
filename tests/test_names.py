"""One name for one thing: what the glossary rules out is no parameter and no setting."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GLOSSARY = ROOT / "book" / "glossary.md"
# What stands beside other libraries speaks their language.
OTHERS = ("bookkit/conformance/adapters", "benchmarks")
CODE = ("nbkit", "studies", "cluster_scripts", "benchmarks")


def ruled_out(text: str) -> dict[str, str]:
    """Each name of the last column (`batch: int` with its type), and the name to take."""
    found = {}
    for row in re.findall(r"^\| (`.*)\|$", text, flags=re.MULTILINE):
        name, _, instead = row.split(" | ") if " | " in row else ("", "", "")
        found |= dict.fromkeys(re.findall(r"`([^`]+)`", instead), name.strip())
    return found


def names(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Line, name and type of each parameter, and of each field of a class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            for one in (*given.posonlyargs, *given.args, *given.kwonlyargs):
                yield one.lineno, one.arg, ast.unparse(one.annotation) if one.annotation else ""
        elif isinstance(node, ast.ClassDef):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    yield field.lineno, field.target.id, ast.unparse(field.annotation)


def wrong(source: str, instead: dict[str, str]) -> list[str]:
    return [
        f"{line}: {name} is called {instead.get(name) or instead[f'{name}: {kind}']}"
        for line, name, kind in names(ast.parse(source))
        if name in instead or f"{name}: {kind}" in instead
    ]


def test_no_second_name() -> None:
    instead = ruled_out(GLOSSARY.read_text(encoding="utf-8"))
    assert {"lr", "batch: int", "num_generations"} <= instead.keys()
    found = []
    for path in sorted(path for folder in CODE for path in (ROOT / folder).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(OTHERS):
            found += [f"{name}:{one}" for one in wrong(path.read_text(encoding="utf-8"), instead)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def f(x, lr): ...", "1: lr is called `learning_rate`"),
        ("class C:\n    num_generations: int = 4", "2: num_generations is called `group_size`"),
        ("def f(*, batch: int): ...", "1: batch is called `batch_size`"),
    ],
)
def test_a_second_name_is_found(source: str, says: str) -> None:
    instead = ruled_out(GLOSSARY.read_text(encoding="utf-8"))
    assert wrong(source, instead) == [says]
    assert not wrong("def f(batch: Batch, logp, rng): ...", instead)
