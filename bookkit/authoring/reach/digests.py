"""Digests of code that leave out what does not run: docstrings, comments, format."""

import ast
from collections.abc import Iterable
from pathlib import Path

from nbkit.runs import sha256

LENGTH = 16
# Fields that say how a thing was written, or that one version of Python has and another has not.
_SILENT = {"type_comment", "kind", "ctx", "type_ignores"}
_WITH_DOCSTRING = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def code_digest(nodes: Iterable[ast.AST]) -> str:
    """Short SHA-256 of syntax trees; the same on every version of Python that reads them alike."""
    parts: list[str] = []
    for node in nodes:
        _write(node, parts)
    return text_digest("\x1f".join(parts))


def text_digest(text: str) -> str:
    """Short SHA-256 of a text."""
    return sha256.text_digest(text, LENGTH)


def file_digest(path: Path) -> str:
    """Short SHA-256 of a file's bytes."""
    return sha256.file_digest(path, LENGTH)


def combined_digest(digests: dict[str, str]) -> str:
    """One short SHA-256 for many named digests, whatever their order."""
    return text_digest("\n".join(f"{name} {digests[name]}" for name in sorted(digests)))


def body_without_docstring(node: ast.AST) -> list[ast.stmt]:
    """The statements of a module, class or function, less its docstring."""
    body: list[ast.stmt] = list(getattr(node, "body", []))
    first = body[0] if body else None
    if (
        isinstance(node, _WITH_DOCSTRING)
        and isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        return body[1:]
    return body


def _write(value: object, parts: list[str]) -> None:
    if isinstance(value, ast.AST):
        parts.append(type(value).__name__)
        for name, child in ast.iter_fields(value):
            if name in _SILENT or child is None or child == []:
                continue
            parts.append(name)
            if isinstance(value, ast.JoinedStr):
                child = _joined(child)
            whole = name == "body" and isinstance(value, _WITH_DOCSTRING)
            _write(body_without_docstring(value) if whole else child, parts)
        parts.append(".")
    elif isinstance(value, list):
        parts.append(f"[{len(value)}")
        for child in value:
            _write(child, parts)
    else:
        parts.append(repr(value))


def _joined(values: list[ast.expr]) -> list[ast.expr | str]:
    """The parts of an f-string; Python 3.12 gives empty ones, and splits what 3.11 gives whole."""
    found: list[ast.expr | str] = []
    for part in values:
        if not isinstance(part, ast.Constant):
            found.append(part)
        elif found and isinstance(found[-1], str):
            found[-1] += str(part.value)
        elif part.value:
            found.append(str(part.value))
    return found
