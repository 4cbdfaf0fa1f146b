"""A module as its source shows it: what it defines, what it imports, what importing it does."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bookkit.authoring.reach.digests import body_without_docstring

# Decorators that only shape the function or class below them. Any other may note it somewhere (a
# registry, a command line), so that importing the module does something with it.
_SHAPING = {
    *("dataclass", "dataclasses.dataclass", "cache", "functools.cache", "lru_cache"),
    *("functools.lru_cache", "functools.wraps", "wraps", "functools.total_ordering"),
    *("total_ordering", "contextmanager", "contextlib.contextmanager", "torch.no_grad"),
    *("torch.inference_mode", "runtime_checkable", "overload", "final", "triton.jit"),
    *("singledispatch", "functools.singledispatch"),
}
_BLOCKS = (ast.If, ast.Try, ast.TryStar, ast.With, ast.For, ast.While, ast.Match)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Target:
    """What an import binds a name to: a module, or one name of it."""

    module: str
    attribute: str | None = None


@dataclass
class Module:
    """One source file.

    Attributes:
        name: its dotted name from the root of the checkout, for example `nbkit.losses`.
        path: the file.
        package: the package that its relative imports start from.
        source: its text.
        definitions: the statements that bind each name of the module, imports apart; blocks that
            import a name and functions that call it `global` are among them.
        imports: what imports bind each name to; one of several may stand in another branch.
        stars: the modules whose names `from … import *` takes over.
        typed: the names that are bound under `if TYPE_CHECKING` alone.
        imported: everything that importing the module loads.
        effects: statements that do something when the module is imported.
        main: the statements under `if __name__ == "__main__"`.
    """

    name: str
    path: Path
    package: str
    source: str = ""
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, list[Target]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    typed: dict[str, list[Target]] = field(default_factory=dict)
    imported: set[Target] = field(default_factory=set)
    effects: list[ast.stmt] = field(default_factory=list)
    main: list[ast.stmt] = field(default_factory=list)

    def add(self, tree: ast.Module) -> None:
        """Take in the statements of a syntax tree."""
        for statement in body_without_docstring(tree):
            self._add(statement)

    def bound_at(self, line: int) -> list[str]:
        """The names that the statement around a line binds; none: an effect, or no such line.

        The name of a function or class itself comes first, before what it calls `global`.
        """
        found = [
            (getattr(statement, "name", name) != name, name)
            for name, statements in self.definitions.items()
            for statement in statements
            if first_line(statement) <= line <= (statement.end_lineno or 0)
        ]
        return [name for _, name in sorted(found, key=lambda pair: pair[0])]

    def _add(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            self._import(statement, self.imports)
        elif isinstance(statement, ast.If) and _is_typing(statement.test):
            for inner in statement.body:
                if isinstance(inner, ast.Import | ast.ImportFrom):
                    self._import(inner, self.typed)
            for inner in statement.orelse:
                self._add(inner)
        elif isinstance(statement, ast.If) and _is_main(statement.test):
            self.main.append(statement)
        else:
            bound = [*bound_names(statement), *self._global(statement)]
            for inner in _imports_inside(statement):
                bound += self._import(inner, self.imports)
            for name in dict.fromkeys(bound):
                self.definitions.setdefault(name, []).append(statement)
            if _has_effect(statement) or (isinstance(statement, _BLOCKS) and not bound):
                self.effects.append(statement)

    def _global(self, statement: ast.stmt) -> set[str]:
        """The names of the module that the functions of a statement bind, by imports too."""
        inside = list(ast.walk(statement))
        names = {name for node in inside if isinstance(node, ast.Global) for name in node.names}
        for node in inside if names else ():
            if isinstance(node, ast.Import | ast.ImportFrom):
                for name, target in import_targets(node, self.package).items():
                    if name in names:
                        self.imports.setdefault(name, []).append(target)
        return names

    def _import(
        self, statement: ast.Import | ast.ImportFrom, into: dict[str, list[Target]]
    ) -> list[str]:
        """Take in an import; the names that it binds."""
        found = import_targets(statement, self.package)
        star = found.pop("*", None)
        if star is not None:
            self.stars.append(star.module)
        for name, target in found.items():
            into.setdefault(name, []).append(target)
        if into is self.imports:
            self.imported.update(imported_targets(statement, self.package))
        return list(found)


def import_targets(statement: ast.Import | ast.ImportFrom, package: str) -> dict[str, Target]:
    """The names that an import statement binds, and to what."""
    found = {}
    for alias in statement.names:
        if isinstance(statement, ast.ImportFrom):
            base = absolute(statement, package)
            found[alias.asname or alias.name] = Target(base, alias.name)
        elif alias.asname:
            found[alias.asname] = Target(alias.name)
        else:
            found[alias.name.split(".")[0]] = Target(alias.name.split(".")[0])
    return found


def imported_targets(statement: ast.Import | ast.ImportFrom, package: str) -> list[Target]:
    """What an import statement loads: `import a.b` loads a.b, though it binds `a` alone."""
    if isinstance(statement, ast.ImportFrom):
        base = absolute(statement, package)
        return [Target(base, alias.name) for alias in statement.names]
    return [Target(alias.name) for alias in statement.names]


def absolute(statement: ast.ImportFrom, package: str) -> str:
    """The dotted name that a `from` import starts from, dots resolved."""
    if not statement.level:
        return statement.module or ""
    parts = package.split(".") if package else []
    base = parts[: len(parts) - statement.level + 1]
    return ".".join([*base, statement.module] if statement.module else base)


def bound_names(statement: ast.AST) -> list[str]:
    """The names that a statement binds where it stands, imports apart."""
    found: list[str] = []
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _DEFINITIONS):
            found.append(node.name)
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, _COMPREHENSIONS):
            # What `:=` binds in there belongs to the scope around.
            inner = [n for n in ast.walk(node) if isinstance(n, ast.NamedExpr)]
            found += [n.target.id for n in inner]
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.append(node.id)
        if isinstance(node, ast.ExceptHandler) and node.name:
            found.append(node.name)
        if isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            found.append(node.name)
        if isinstance(node, ast.MatchMapping) and node.rest:
            found.append(node.rest)
        waiting.extend(ast.iter_child_nodes(node))
    return list(dict.fromkeys(found))


def first_line(statement: ast.stmt) -> int:
    """The line on which a statement begins, its decorators included."""
    decorators = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def source_of(
    module: Module, name: str, chain: tuple[str, ...], statement: ast.stmt
) -> tuple[str, str, bool]:
    """A definition as it is written, or the part of it that attributes lead to.

    Returns:
        Its label, its text, and whether all the attributes were found.
    """
    part: ast.AST = statement
    label, whole = f"{module.name}.{name}", True
    for attribute in chain:
        inner = [n for n in ast.iter_child_nodes(part) if getattr(n, "name", None) == attribute]
        if not inner:
            whole = attribute.startswith("__")
            break
        part, label = inner[0], f"{label}.{attribute}"
    lines = module.source.splitlines()
    first, last = first_line(part), part.end_lineno  # type: ignore[arg-type,attr-defined]
    return label, "\n".join(lines[first - 1 : last]), whole


def calls(node: ast.AST) -> Iterator[ast.Call]:
    """Every call in an expression or statement that is made when it runs, not in its functions."""
    if isinstance(node, ast.Call):
        yield node
    if isinstance(node, ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef):
        arguments = node.args
        now = [*getattr(node, "decorator_list", []), *arguments.defaults, *arguments.kw_defaults]
        children = [child for child in now if child is not None]
    else:
        children = list(ast.iter_child_nodes(node))
    for child in children:
        yield from calls(child)


def _has_effect(statement: ast.stmt) -> bool:
    """Whether a statement may do more than bind names."""
    if isinstance(statement, _DEFINITIONS):
        return any(not _shapes(decorator) for decorator in statement.decorator_list)
    if isinstance(statement, ast.Import | ast.ImportFrom | ast.Pass | ast.Break | ast.Continue):
        return False
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Assign):
        return any(_changes_something(target) for target in statement.targets)
    if isinstance(statement, ast.AnnAssign):
        return _changes_something(statement.target)
    if isinstance(statement, _BLOCKS):
        inner = [n for n in ast.iter_child_nodes(statement) if isinstance(n, ast.stmt)]
        for part in (*getattr(statement, "handlers", []), *getattr(statement, "cases", [])):
            inner += part.body
        return any(_has_effect(child) for child in inner)
    return True


def _changes_something(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple | ast.List):
        return any(map(_changes_something, target.elts))
    if isinstance(target, ast.Name):
        return target.id == "_"
    return isinstance(target, ast.Attribute | ast.Subscript)


def _shapes(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called) in _SHAPING


def _imports_inside(statement: ast.stmt) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports in the branches of a block, but not in functions and classes."""
    if not isinstance(statement, _BLOCKS):
        return
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))


def _is_typing(test: ast.expr) -> bool:
    return ast.unparse(test).rpartition(".")[2] == "TYPE_CHECKING"


def _is_main(test: ast.expr) -> bool:
    return ast.unparse(test).replace('"', "'") == "__name__ == '__main__'"
