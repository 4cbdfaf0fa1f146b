"""Which names from outside itself a piece of code uses, scope by scope as Python reads them."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from bookkit.authoring.reach.modules import Target, bound_names, import_targets, imported_targets

# What these are given is shown to the reader as it is written, docstrings and comments included.
_SHOWING = {"show", "getsource", "getsourcelines", "getdoc", "help"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Use:
    """One use of a name from outside.

    Attributes:
        name: the name, of the module around or of builtins; None where `target` says it.
        target: what a local import bound the name to.
        chain: the attributes that follow it, `losses.ppo.loss` giving ("ppo", "loss").
        shown: whether its source is shown, so that docstrings and comments matter.
    """

    name: str | None
    target: Target | None
    chain: tuple[str, ...]
    shown: bool


@dataclass(frozen=True)
class Loaded:
    """An import statement inside a function, which loads a module when it runs."""

    target: Target


@dataclass(frozen=True)
class Text:
    """A string constant, which may name a module or hold code."""

    value: str


class _Scope:
    def __init__(self, kind: str, local: set[str]) -> None:
        self.kind = kind
        self.local = local
        self.imports: dict[str, list[Target]] = {}


def uses(node: ast.AST, package: str) -> Iterator[Use | Loaded | Text]:
    """Find what a statement uses from outside itself.

    Args:
        node: a statement of a module.
        package: the package that relative imports inside it start from.

    Yields:
        Uses of names, imports and strings. What annotations of functions name is left out; that
        of a class's fields is not, as dataclasses read it.
    """
    yield from _Finder(package).visit(node, [], shown=False)


class _Finder:
    def __init__(self, package: str) -> None:
        self.package = package

    def visit(self, node: ast.AST, scopes: list[_Scope], *, shown: bool) -> Iterator:
        if isinstance(node, _FUNCTIONS):
            yield from self._function(node, scopes)
        elif isinstance(node, ast.ClassDef):
            yield from self._class(node, scopes)
        elif isinstance(node, _COMPREHENSIONS):
            yield from self._comprehension(node, scopes, shown or _shows(node))
        elif isinstance(node, ast.JoinedStr):
            yield Text("".join(map(_literal, node.values)))
            yield from self._children(node, scopes, shown)
        elif isinstance(node, ast.For):
            # What is shown in a loop goes by the loop's own name.
            yield from self._children(node, scopes, shown or _shows(node))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for target in imported_targets(node, self.package):
                yield Loaded(target)
            if scopes:
                _note_imports(node, scopes[-1], self.package)
        elif isinstance(node, ast.Name | ast.Attribute):
            yield from self._name(node, scopes, shown)
        elif isinstance(node, ast.Call) and _called(node) in _SHOWING:
            yield from self.visit(node.func, scopes, shown=False)
            for child in (*node.args, *(keyword.value for keyword in node.keywords)):
                yield from self.visit(child, scopes, shown=True)
        elif isinstance(node, ast.AnnAssign):
            yield from self._annotated(node, scopes, shown)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                yield Text(node.value)
        else:
            yield from self._children(node, scopes, shown)

    def _children(self, node: ast.AST, scopes: list[_Scope], shown: bool) -> Iterator:
        for child in ast.iter_child_nodes(node):
            yield from self.visit(child, scopes, shown=shown)

    def _comprehension(self, node: ast.AST, scopes: list[_Scope], shown: bool) -> Iterator:
        generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
        names = {n for g in generators for n in bound_names(g.target)}
        # What is gone through first is read outside, before the names are bound.
        yield from self.visit(generators[0].iter, scopes, shown=shown)
        yield from self._children(node, [*scopes, _Scope("function", names)], shown)

    def _function(self, node: ast.AST, scopes: list[_Scope]) -> Iterator:
        arguments: ast.arguments = node.args  # type: ignore[attr-defined]
        outside = [*getattr(node, "decorator_list", []), *arguments.defaults]
        for child in (*outside, *(default for default in arguments.kw_defaults if default)):
            yield from self.visit(child, scopes, shown=False)
        body = [node.body] if isinstance(node, ast.Lambda) else node.body  # type: ignore[attr-defined]
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [a for a in (arguments.vararg, arguments.kwarg) if a]
        local = {argument.arg for argument in every}
        outer: set[str] = set()
        for statement in body:
            local |= set(bound_names(statement))
            outer |= {
                name
                for inner in ast.walk(statement)
                if isinstance(inner, ast.Global)
                for name in inner.names
            }
        scope = _Scope("function", local - outer)
        _collect_imports(body, scope, self.package)
        for statement in body:
            yield from self.visit(statement, [*scopes, scope], shown=False)

    def _class(self, node: ast.ClassDef, scopes: list[_Scope]) -> Iterator:
        outside = [*node.decorator_list, *node.bases, *(k.value for k in node.keywords)]
        for child in outside:
            yield from self.visit(child, scopes, shown=False)
        # A name that the class body binds may be read there before; outside names stay visible.
        scope = _Scope("class", set())
        for statement in node.body:
            yield from self.visit(statement, [*scopes, scope], shown=False)

    def _annotated(self, node: ast.AnnAssign, scopes: list[_Scope], shown: bool) -> Iterator:
        if scopes and scopes[-1].kind == "class":
            yield from self.visit(node.annotation, scopes, shown=False)
        yield from self.visit(node.target, scopes, shown=False)
        if node.value is not None:
            yield from self.visit(node.value, scopes, shown=shown)

    def _name(self, node: ast.expr, scopes: list[_Scope], shown: bool) -> Iterator:
        chain: list[str] = []
        while isinstance(node, ast.Attribute):
            chain.append(node.attr)
            node = node.value
        chain.reverse()
        if not isinstance(node, ast.Name):
            yield from self.visit(node, scopes, shown=shown)
            return
        if isinstance(node.ctx, ast.Store) and not chain:
            return
        shown = shown or "__doc__" in chain
        for scope in reversed(scopes):
            if node.id in scope.imports:
                for target in scope.imports[node.id]:
                    yield Use(None, target, tuple(chain), shown)
                return
            if node.id in scope.local:
                return
        yield Use(node.id, None, tuple(chain), shown)


def _collect_imports(body: list[ast.AST], scope: _Scope, package: str) -> None:
    """Note the imports of a function beforehand: an inner function may stand above them."""
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            _note_imports(node, scope, package)
        elif not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(node))


def _note_imports(node: ast.Import | ast.ImportFrom, scope: _Scope, package: str) -> None:
    for name, target in import_targets(node, package).items():
        if target not in scope.imports.setdefault(name, []):
            scope.imports[name].append(target)


def _shows(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Call) and _called(n) in _SHOWING for n in ast.walk(node))


def _literal(part: ast.expr) -> str:
    """A part of an f-string; what is filled in stands as a name, so that code stays code."""
    return str(part.value) if isinstance(part, ast.Constant) else "_"


def _called(node: ast.Call) -> str:
    return ast.unparse(node.func).rpartition(".")[2]
