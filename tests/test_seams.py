"""Where models, vocabularies and problems are handed on, a type says what is asked of them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SEAMS = {
    "model", "models", "policy", "reference", "base", "body", "judge",
    "vocabulary", "tokenizer", "problem", "problems", "asked", "questions", "prompts", "parallel",
}  # fmt: skip
# What no Protocol could say, with the reason.
LEFT = {
    # These read or rewrite the parts of transformers' modules, which each family has its own of.
    "nbkit/generate/weights.py geometry(model)",
    "nbkit/generate/weights.py read(model)",
    "nbkit/parallel/scoring.py attach_scoring(model)",
}


def any_at_seams(source: str) -> Iterator[str]:
    """Parameters and fields with a name of a seam whose type is Any, or a container of it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            for one in (*given.posonlyargs, *given.args, *given.kwonlyargs):
                if one.arg in SEAMS and _is_any(one.annotation):
                    yield f"{node.name}({one.arg})"
        elif isinstance(node, ast.ClassDef):
            fields = [field for field in node.body if isinstance(field, ast.AnnAssign)]
            for field in fields:
                name = ast.unparse(field.target)
                if name in SEAMS and _is_any(field.annotation):
                    yield f"{node.name}.{name}"


def _is_any(annotation: ast.expr | None) -> bool:
    """Whether Any is the type or that of a sequence's entries; settings by name may be Any."""
    if annotation is None:
        return False
    names = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
    return "Any" in names and not names & {"Callable", "Mapping", "dict"}


def test_a_model_is_no_any() -> None:
    found = {
        f"{path.relative_to(ROOT).as_posix()} {one}"
        for path in sorted((ROOT / "nbkit").rglob("*.py"))
        for one in any_at_seams(path.read_text(encoding="utf-8"))
    }
    assert found == LEFT


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f(model: Any): ...", ["f(model)"]),
        ("def f(*, problems: Sequence[Any] | None): ...", ["f(problems)"]),
        ("class C:\n    policy: Any", ["C.policy"]),
        ("def f(model: LanguageModel, body: Mapping[str, Any], other: Any): ...", []),
    ],
)
def test_any_at_a_seam_is_found(source: str, found: list[str]) -> None:
    assert list(any_at_seams(source)) == found
