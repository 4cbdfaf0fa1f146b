"""The sources of a checkout: its modules by name, what their statements use, their digests."""

import ast
import re
from functools import cached_property
from pathlib import Path

from bookkit.authoring.reach.digests import code_digest
from bookkit.authoring.reach.modules import Module, calls
from bookkit.authoring.reach.names import Loaded, Text, Use, uses

# Folders of the checkout whose Python files are code of the book; anything else is a library.
PACKAGES = ("nbkit", "bookkit")
FOLDERS = (*PACKAGES, "studies", "benchmarks", "tests", "cluster_scripts", "exercises")
_CHECKS = "exercises/checks"


class Sources:
    """Reads the modules of one checkout, each once, until a file changes."""

    def __init__(self, root: Path) -> None:
        """Begin with nothing read."""
        self.root = root
        self._forget()

    def module(self, name: str) -> Module | None:
        """The module of a dotted name; None where the checkout has none."""
        if name not in self._modules:
            path = self.file_of(name)
            self._modules[name] = self._read(name, path) if path else None
        return self._modules[name]

    def file_of(self, module: str) -> Path | None:
        """The source file of a module of the checkout; None where there is none."""
        parts = module.split(".")
        if parts[0] not in FOLDERS:
            return None
        base = self.root.joinpath(*parts)
        # Of a package and a module of one name, Python takes the package.
        files = (base / "__init__.py", base.with_name(base.name + ".py"))
        return next((path for path in files if path.is_file()), None)

    def script(self, path: Path) -> Module:
        """The module of a script, its neighbours importable by their bare names."""
        name = ".".join(path.resolve().relative_to(self.root).with_suffix("").parts)
        found = self.module(name) or self._read(name, path)
        self._modules[name] = found
        return found

    def uses_of(self, module: Module, statement: ast.stmt) -> list[Use | Loaded | Text]:
        """What a statement of a module uses; found once for those that stay in memory."""
        if not module.name:
            return list(uses(statement, module.package))
        if id(statement) not in self._uses:
            self._uses[id(statement)] = list(uses(statement, module.package))
        return self._uses[id(statement)]

    def digest(self, module: Module, name: str, statements: list[ast.stmt]) -> str:
        """The digest of some statements of a module, found once under a name."""
        key = (module.name, name)
        if key not in self._digests:
            self._digests[key] = code_digest(statements)
        return self._digests[key]

    @cached_property
    def exercises(self) -> dict[str, tuple[str, str]]:
        """Module and name of each exercise by its id: checks are found by id, not by import."""
        found = {}
        for name in self.check_modules():
            module = self.module(name)
            for symbol, statements in (module.definitions if module else {}).items():
                for identifier in _exercise_ids(statements):
                    found[identifier] = (name, symbol)
        return found

    def check_modules(self) -> list[str]:
        """The modules that prove the exercises of all chapters, by dotted name."""
        paths = sorted((self.root / _CHECKS).glob("*/*.py"))
        return [".".join(p.relative_to(self.root).with_suffix("").parts) for p in paths]

    def _forget(self) -> None:
        self._modules: dict[str, Module | None] = {}
        self._uses: dict[int, list[Use | Loaded | Text]] = {}
        self._digests: dict[tuple[str, str], str] = {}
        self._states: dict[Path, tuple[int, int]] = {}
        self.__dict__.pop("exercises", None)

    def look_again(self) -> None:
        """Forget everything if a file was edited, came or went since it was read."""
        edited = any(_state(path) != state for path, state in self._states.items())
        came = any(self.file_of(name) for name, known in self._modules.items() if known is None)
        if edited or came:
            self._forget()

    def _read(self, name: str, path: Path) -> Module:
        self._states[path] = _state(path)
        source = path.read_text(encoding="utf-8")
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        module = Module(name, path, package, source)
        module.add(ast.parse(source))
        return module


def without_magics(source: str) -> str:
    """Turn IPython's lines into Python: what is timed stays, commands become strings."""
    timed = r"^(\s*(?:\w+\s*=\s*)?)%(?:time|timeit|prun)\b(?:\s+-\S+(?:\s+\d+)?)*[ \t]+(\S.*)$"
    source = re.sub(timed, r"\1\2", source, flags=re.MULTILINE)
    source = re.sub(r"^(\s*)\??([\w.]+)\?{1,2}$", r"\1help(\2)", source, flags=re.MULTILINE)
    command = r"^(\s*(?:\w+\s*=\s*)?)[%!](.*)$"
    return re.sub(command, lambda m: f"{m[1]}str({m[2]!r})", source, flags=re.MULTILINE)


def parsed(source: str) -> ast.Module | None:
    """The syntax tree of a source, magics left out; None if it is not Python."""
    try:
        return ast.parse(without_magics(source))
    except (SyntaxError, ValueError):
        return None


def _state(path: Path) -> tuple[int, int]:
    """What tells an edited file from itself: when it was written, and its size; 0 where gone."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _exercise_ids(statements: list[ast.stmt]) -> list[str]:
    """The ids that calls like `Exercise(id="reinforce.mask.1", …)` in some statements give."""
    return [
        keyword.value.value
        for statement in statements
        for call in calls(statement)
        for keyword in call.keywords
        if keyword.arg == "id"
        and isinstance(keyword.value, ast.Constant)
        and isinstance(keyword.value.value, str)
    ]
