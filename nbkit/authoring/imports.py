"""Which modules of the package a piece of code depends on, found without importing anything."""

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

PACKAGE = "nbkit"


class ImportGraph:
    """The modules of the package and what each imports, read from their syntax trees."""

    def __init__(self, root: Path) -> None:
        """Look at the package in the checkout `root`."""
        self.root = root
        self.lazy_names = _lazy_names(root / PACKAGE / "__init__.py")
        self._direct: dict[str, set[str]] = {}

    def closure(self, sources: Iterable[str], *, also: Iterable[str] = ()) -> set[str]:
        """Find every module that some code imports, directly or through other modules.

        Args:
            sources: Python sources; lines of IPython magic are ignored.
            also: modules to start from besides those.

        Returns:
            Dotted names, packages on the way included. Imports under `if TYPE_CHECKING` do not
            count; imports inside functions do.
        """
        waiting = {name for name in also if self.file_of(name)}
        for source in sources:
            waiting |= self._imports(source, PACKAGE)
        found: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting |= self._imports_of_module(name) - found
        return found

    def file_of(self, module: str) -> Path | None:
        """The source file of a module of the package; None where there is none."""
        base = self.root.joinpath(*module.split("."))
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                return path
        return None

    def digests(self, modules: Iterable[str]) -> dict[str, str]:
        """Digest the source of modules, and the data files that lie beside them.

        Returns:
            Short SHA-256 by dotted name, and by path from the root for data files.
        """
        found = {}
        folders = set()
        for module in modules:
            path = self.file_of(module)
            if path is not None:
                found[module] = file_digest(path)
                folders.add(path.parent)
        for folder in folders:
            for path in folder.iterdir():
                if path.is_file() and path.suffix not in {".py", ".pyc", ".pyi"}:
                    found[path.relative_to(self.root).as_posix()] = file_digest(path)
        return dict(sorted(found.items()))

    def _imports_of_module(self, module: str) -> set[str]:
        if module not in self._direct:
            path = self.file_of(module)
            assert path is not None
            parent = module if path.name == "__init__.py" else module.rpartition(".")[0]
            self._direct[module] = self._imports(path.read_text(encoding="utf-8"), parent)
        return self._direct[module]

    def _imports(self, source: str, package: str) -> set[str]:
        try:
            tree = ast.parse(without_magics(source))
        except SyntaxError:
            return set()
        found: set[str] = set()
        for node in _runtime_nodes(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    found |= self._modules(alias.name)
            elif isinstance(node, ast.ImportFrom):
                base = _absolute(node, package)
                for alias in node.names:
                    found |= self._modules(f"{base}.{alias.name}")
            elif isinstance(node, ast.Attribute):
                dotted = _dotted(node)
                if dotted.startswith(f"{PACKAGE}."):
                    found |= self._modules(dotted)
        return found

    def _modules(self, dotted: str) -> set[str]:
        """The modules along a dotted name: `nbkit.losses.ppo_clip_loss` gives nbkit, nbkit.losses.

        A name that the package loads lazily counts as the module that it is loaded from.
        """
        parts = dotted.split(".")
        if parts[0] != PACKAGE:
            return set()
        prefixes = [".".join(parts[: n + 1]) for n in range(len(parts))]
        found = {name for name in prefixes if self.file_of(name)}
        lazy = self.lazy_names.get(parts[1]) if len(parts) > 1 else None
        return found | self._modules(lazy) if lazy else found


def without_magics(source: str) -> str:
    """Replace IPython's magic and shell lines by `pass`, so that the rest parses as Python."""
    return re.sub(r"^(\s*)[%!].*$", r"\1pass", source, flags=re.MULTILINE)


def file_digest(path: Path) -> str:
    """Short SHA-256 of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk a tree, leaving out the bodies of `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for statement in child.orelse:
                yield statement
                yield from _runtime_nodes(statement)
            continue
        yield child
        yield from _runtime_nodes(child)


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    base = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*base, node.module] if node.module else base)


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return "?"


@cache
def _lazy_names(init: Path) -> dict[str, str]:
    """The table `_LAZY` of the package: public name to the dotted module that holds it."""
    if not init.is_file():
        return {}
    for node in ast.parse(init.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_LAZY":
            return {name: module for name, (module, _) in ast.literal_eval(node.value).items()}
    return {}
