"""Says whether a dotted name of the package exists, by reading sources; nothing is imported."""

import ast
from collections.abc import Iterable
from pathlib import Path

from bookkit.authoring.reach import Finder
from bookkit.authoring.reach.sources import PACKAGES


class Names:
    """The names that the package defines, looked up in its syntax trees."""

    def __init__(self, root: Path) -> None:
        """Look at the package in the checkout `root`."""
        self.finder = Finder(root)
        package = self.finder.module("nbkit")
        self.lazy_names = package.typed if package else {}
        self._bodies: dict[str, list[ast.stmt]] = {}

    def exists(self, dotted: str) -> bool:
        """Whether `nbkit.a.b.c` is a module, or something that a module or a class defines."""
        parts = dotted.split(".")
        for length in range(len(parts), 0, -1):
            module = ".".join(parts[:length])
            if self.finder.file_of(module):
                return self._defines(module, parts[length:])
        return False

    def _defines(self, module: str, rest: list[str]) -> bool:
        if not rest:
            return True
        lazy = self.lazy_names.get(rest[0]) if module == "nbkit" else None
        if lazy:
            return self.exists(".".join([lazy[0].module, *rest]))
        for node in _definitions(self._body(module)):
            if rest[0] in _names(node):
                return self._has(node, module, rest)
        return False

    def _has(self, node: ast.stmt, module: str, rest: list[str]) -> bool:
        if len(rest) == 1:
            return True
        if isinstance(node, ast.ClassDef):
            return rest[1] in _members(node) or any(
                self._defines(module, [ast.unparse(base), rest[1]]) for base in node.bases
            )
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGES):
            return self.exists(".".join([node.module or "", *rest]))
        # A value whose attributes the source does not show, such as a table or an instance.
        return not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)

    def _body(self, module: str) -> list[ast.stmt]:
        if module not in self._bodies:
            path = self.finder.file_of(module)
            assert path is not None
            self._bodies[module] = ast.parse(path.read_text(encoding="utf-8")).body
        return self._bodies[module]


def _definitions(body: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    """The statements that define names, those inside `if` and `try` included."""
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            yield from _definitions(node.body)
            yield from _definitions(node.orelse)
        else:
            yield node


def _names(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        return {name.id for target in node.targets for name in _targets(target)}
    if isinstance(node, ast.AnnAssign):
        return {name.id for name in _targets(node.target)}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    return set()


def _members(node: ast.ClassDef) -> set[str]:
    """Fields, methods and what the methods set on `self`."""
    found = set().union(*map(_names, node.body))
    for inner in ast.walk(node):
        if (
            isinstance(inner, ast.Attribute)
            and isinstance(inner.ctx, ast.Store)
            and isinstance(inner.value, ast.Name)
            and inner.value.id == "self"
        ):
            found.add(inner.attr)
    return found


def _targets(node: ast.expr) -> Iterable[ast.Name]:
    return (inner for inner in ast.walk(node) if isinstance(inner, ast.Name))
