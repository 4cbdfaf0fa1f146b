"""What importing a module does beside binding names: calls into the checkout, classes that enrol.

A call of a function of the checkout counts, and so does one of a method of an object that stands
in the checkout; making an instance counts where its class has code that runs then. What a library
does with what it is handed is not looked into.
"""

import ast
from collections.abc import Iterator

from bookkit.authoring.reach.modules import Module, calls, first_line
from bookkit.authoring.reach.sources import Sources

_MAKING = {"__init__", "__new__", "__post_init__"}
_ENROLLING = {"__init_subclass__"}
_DEEPEST = 8  # re-exports and base classes that are followed


def doing(finder: Sources, module: Module) -> list[ast.stmt]:
    """The statements of a module that may do something when it is imported, in their order."""
    found = {
        statement
        for statements in module.definitions.values()
        for statement in statements
        if any(_runs(finder, module, call) for call in calls(statement))
        or (isinstance(statement, ast.ClassDef) and _enrols(finder, module, statement))
    }
    return sorted(found.union(module.effects), key=first_line)


def _runs(finder: Sources, module: Module, call: ast.Call) -> bool:
    """Whether a call runs code of the checkout that may change something elsewhere."""
    if isinstance(call.func, ast.Name):
        return any(
            isinstance(statement, ast.FunctionDef) or _has(finder, place, statement, _MAKING)
            for place, statement in bindings(finder, module, call.func.id)
        )
    return isinstance(call.func, ast.Attribute) and _is_ours(finder, module, call.func)


def _is_ours(finder: Sources, module: Module, called: ast.Attribute) -> bool:
    """Whether `a.b.c` begins with a module of the checkout or an object that stands in it."""
    root: ast.expr = called
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name):
        return False
    for target in module.imports.get(root.id, []):
        inner = f"{target.module}.{target.attribute}" if target.attribute else target.module
        if finder.file_of(inner):
            return True
    return any(True for _ in bindings(finder, module, root.id))


def _enrols(finder: Sources, module: Module, made: ast.ClassDef) -> bool:
    """Whether making a class runs code of the checkout: of a base, or of a metaclass."""
    parts = [*made.bases, *(keyword.value for keyword in made.keywords)]
    metaclass = any(
        isinstance(statement, ast.ClassDef)
        for keyword in made.keywords
        if keyword.arg == "metaclass"
        for _, statement in _classes(finder, module, keyword.value)
    )
    return metaclass or any(
        _has(finder, place, statement, _ENROLLING)
        for part in parts
        for place, statement in _classes(finder, module, part)
    )


def _has(
    finder: Sources, module: Module, statement: ast.stmt, methods: set[str], depth: int = _DEEPEST
) -> bool:
    """Whether a class or one of its bases has a method of these names, or a metaclass of ours."""
    if not isinstance(statement, ast.ClassDef) or depth == 0:
        return False
    if any(getattr(inner, "name", None) in methods for inner in statement.body):
        return True
    parts = [*statement.bases]
    for keyword in statement.keywords:
        if any(True for _ in _classes(finder, module, keyword.value)):
            return True
    return any(
        _has(finder, place, found, methods, depth - 1)
        for part in parts
        for place, found in _classes(finder, module, part)
    )


def _classes(finder: Sources, module: Module, named: ast.expr) -> Iterator[tuple[Module, ast.stmt]]:
    """The classes of the checkout that an expression such as `Base` or `module.Base` names."""
    if isinstance(named, ast.Name):
        found = bindings(finder, module, named.id)
    elif isinstance(named, ast.Attribute) and isinstance(named.value, ast.Name):
        targets = module.imports.get(named.value.id, [])
        names = [f"{t.module}.{t.attribute}" if t.attribute else t.module for t in targets]
        others = [other for name in names if (other := finder.module(name))]
        found = (pair for other in others for pair in bindings(finder, other, named.attr))
    else:
        return
    yield from (pair for pair in found if isinstance(pair[1], ast.ClassDef))


def bindings(
    finder: Sources, module: Module, name: str, depth: int = _DEEPEST
) -> Iterator[tuple[Module, ast.stmt]]:
    """The statements of the checkout that bind a name of a module, through imports, if any."""
    for statement in module.definitions.get(name, []):
        yield module, statement
    if depth:
        targets = [(t.module, t.attribute) for t in module.imports.get(name, []) if t.attribute]
        for place, attribute in [*targets, *((star, name) for star in module.stars)]:
            other = finder.module(place)
            if other is not None:
                yield from bindings(finder, other, str(attribute), depth - 1)
