"""From some code to everything of the checkout that it can come to."""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from nbkit.authoring.reach.digests import code_digest, combined_digest, text_digest
from nbkit.authoring.reach.modules import Module, Target, calls, first_line
from nbkit.authoring.reach.names import Loaded, Text, Use, uses

# Folders of the checkout whose Python files are code of the book; anything else is a library.
FOLDERS = ("nbkit", "studies", "benchmarks", "tests", "cluster_scripts")
IMPORTING = "(on import)"
SHOWN = "(as shown)"
ABSENT = "absent"
_DOTTED = re.compile(rf"({'|'.join(FOLDERS)})((\.\w+)+)")
_IMPORTS = re.compile(rf"^\s*(from|import) ({'|'.join(FOLDERS)})\b", re.MULTILINE)
_EXERCISE = re.compile(r"[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)+")
_EXERCISES = "nbkit/exercises"


@dataclass
class Reach:
    """What some code can come to.

    Attributes:
        symbols: a digest for each function, class and constant by dotted name; for what importing
            a module does, under `module (on import)`; for source that is shown, under
            `name (as shown)`; `absent` for a name that its module does not have.
        modules: every module of the checkout that is imported on the way.
    """

    symbols: dict[str, str] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)

    @property
    def digest(self) -> str:
        """One digest for all of it."""
        return combined_digest(self.symbols)


class Finder:
    """Reads the modules of one checkout, each once, and follows names through them."""

    def __init__(self, root: Path) -> None:
        """Begin with nothing read."""
        self.root = root
        self._forget()

    def reach(
        self,
        *,
        sources: Iterable[str] = (),
        scripts: Iterable[Path] = (),
        modules: Iterable[str] = (),
    ) -> Reach:
        """Follow code to its end.

        Args:
            sources: Python sources that run together, as the cells of a page do; lines of IPython
                magic are ignored, and a source that is not Python reaches nothing.
            scripts: files that are run as programs.
            modules: dotted names of modules that are reached whole.
        """
        self._look_again()
        walk = _Walk(self)
        page = Module("", self.root / "page", "")
        for source in sources:
            tree = _parsed(source)
            if tree is not None:
                page.add(tree)
        walk.run_whole(page)
        for script in scripts:
            walk.run_whole(self.script(script))
        for name in modules:
            walk.whole(name)
        walk.finish()
        return walk.reach

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
        files = (base.with_name(base.name + ".py"), base / "__init__.py")
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
        for path in sorted((self.root / _EXERCISES).glob("chapter_*/*.py")):
            name = ".".join(path.relative_to(self.root).with_suffix("").parts)
            module = self.module(name.removesuffix(".__init__"))
            for symbol, statements in (module.definitions if module else {}).items():
                for identifier in _exercise_ids(statements):
                    found[identifier] = (name, symbol)
        return found

    def _forget(self) -> None:
        self._modules: dict[str, Module | None] = {}
        self._uses: dict[int, list[Use | Loaded | Text]] = {}
        self._digests: dict[tuple[str, str], str] = {}
        self._states: dict[Path, tuple[int, int]] = {}
        self.__dict__.pop("exercises", None)

    def _look_again(self) -> None:
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


class _Walk:
    """One walk from some code to everything that it reaches."""

    def __init__(self, finder: Finder) -> None:
        self.finder = finder
        self.reach = Reach()
        self._waiting: list[tuple[Module, list[ast.stmt]]] = []
        # By identity; the statements are kept, or another one could get the same.
        self._followed: dict[int, ast.stmt] = {}

    def run_whole(self, module: Module) -> None:
        """Everything that a page or a script does, and all that it defines."""
        for target in sorted(module.imported, key=str):
            self._load(target, module)
        statements = [s for found in module.definitions.values() for s in found]
        statements += module.effects + module.main
        if module.name:
            self.reach.modules.add(module.name)
            self.reach.symbols[module.name] = code_digest([ast.parse(module.source)])
        self._follow(module, statements)

    def whole(self, name: str) -> None:
        """A module that is handed around as a whole: any of its names may be asked for."""
        module = self.finder.module(name)
        if module is None:
            return
        self._import(name)
        for symbol in [*module.definitions, *module.imports]:
            self._symbol(module, symbol, (), shown=False)

    def finish(self) -> None:
        """Follow until nothing new is found."""
        while self._waiting:
            module, statements = self._waiting.pop()
            for statement in statements:
                for use in self.finder.uses_of(module, statement):
                    self._use(module, use)

    def _follow(self, module: Module, statements: list[ast.stmt]) -> None:
        new = [s for s in statements if id(s) not in self._followed]
        self._followed.update((id(statement), statement) for statement in new)
        if new:
            self._waiting.append((module, new))

    def _use(self, module: Module, use: Use | Loaded | Text) -> None:
        if isinstance(use, Loaded):
            self._load(use.target, module)
        elif isinstance(use, Text):
            self._text(use.value)
        elif use.target is not None:
            self._target(use.target, use.chain, module, use.shown)
        elif use.name is not None and module.name:
            self._symbol(module, use.name, use.chain, shown=use.shown, builtin=True)
        elif use.name in module.imports:
            self._target(module.imports[use.name], use.chain, module, use.shown)

    def _symbol(
        self,
        module: Module,
        name: str,
        chain: tuple[str, ...],
        *,
        shown: bool,
        builtin: bool = False,
    ) -> None:
        key = f"{module.name}.{name}"
        statements = module.definitions.get(name)
        if statements:
            if key not in self.reach.symbols:
                self.reach.symbols[key] = self.finder.digest(module, name, statements)
                self._import(module.name)
                self._follow(module, statements)
            if shown:
                self._shown(module, name, chain, statements)
        if name in module.imports:
            self._alias(module, key, module.imports[name], chain, shown)
        elif not statements and name in module.typed and "__getattr__" in module.definitions:
            self._lazy(module, key, name, chain, shown)
        elif not statements and not builtin:
            self._import(module.name)
            self.reach.symbols[key] = ABSENT

    def _alias(
        self, module: Module, key: str, target: Target, chain: tuple[str, ...], shown: bool
    ) -> None:
        self._import(module.name)
        if self._is_ours(target, module):
            self.reach.symbols.setdefault(f"{key} (import)", text_digest(repr(target)))
        self._target(target, chain, module, shown)

    def _lazy(
        self, module: Module, key: str, name: str, chain: tuple[str, ...], shown: bool
    ) -> None:
        """A name that `__getattr__` of the module loads; its typed import says from where."""
        self._import(module.name)
        for hook in ("__getattr__", "_LAZY"):
            if hook in module.definitions:
                statements = module.definitions[hook]
                found = self.finder.digest(module, hook, statements)
                self.reach.symbols[f"{module.name}.{hook}"] = found
        self._alias(module, key, module.typed[name], chain, shown)

    def _target(
        self, target: Target, chain: tuple[str, ...], importer: Module, shown: bool
    ) -> None:
        names = (target.attribute, *chain) if target.attribute else chain
        name = self._resolved(target.module, importer)
        if name is None:
            return
        module = self.finder.module(name)
        while names and self._submodule(name, module, names[0]):
            name, names = f"{name}.{names[0]}", names[1:]
            module = self.finder.module(name)
        self._import(name)
        if not names:
            self.whole(name)
        elif module is not None:
            self._symbol(module, names[0], names[1:], shown=shown)

    def _submodule(self, name: str, module: Module | None, attribute: str) -> bool:
        if module is not None and (attribute in module.definitions or attribute in module.imports):
            return False
        inner = f"{name}.{attribute}"
        return self.finder.file_of(inner) is not None or self._is_folder(inner)

    def _resolved(self, name: str, importer: Module) -> str | None:
        """The dotted name from the root: a script finds its neighbours by their bare names."""
        if self.finder.file_of(name) or self._is_folder(name):
            return name
        if importer.name and not importer.name.startswith("nbkit"):
            near = f"{importer.name.rpartition('.')[0]}.{name}"
            if self.finder.file_of(near):
                return near
        return None

    def _is_folder(self, name: str) -> bool:
        parts = name.split(".")
        return parts[0] in FOLDERS and self.finder.root.joinpath(*parts).is_dir()

    def _is_ours(self, target: Target, importer: Module) -> bool:
        return self._resolved(target.module, importer) is not None

    def _load(self, target: Target, importer: Module) -> None:
        name = self._resolved(target.module, importer)
        if name is None:
            return
        self._import(name)
        if target.attribute and self._submodule(name, self.finder.module(name), target.attribute):
            self._import(f"{name}.{target.attribute}")

    def _import(self, name: str) -> None:
        """Everything that importing a module does, its packages first."""
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            self._import_one(".".join(parts[:count]))

    def _import_one(self, name: str) -> None:
        if name in self.reach.modules:
            return
        module = self.finder.module(name)
        if module is None:
            return
        self.reach.modules.add(name)
        effects = [*module.effects, *self._calling(module)]
        if effects:
            found = self.finder.digest(module, IMPORTING, effects)
            self.reach.symbols[f"{name} {IMPORTING}"] = found
            self._follow(module, effects)
        for target in sorted(module.imported, key=str):
            self._load(target, module)

    def _calling(self, module: Module) -> list[ast.stmt]:
        """Assignments at the top of a module that call one of its own functions or a sibling's."""
        found = {
            statement
            for statements in module.definitions.values()
            for statement in statements
            if isinstance(statement, ast.Assign | ast.AnnAssign)
            and any(self._is_function(module, call.func) for call in calls(statement))
        }
        return sorted(found, key=first_line)

    def _is_function(self, module: Module, called: ast.expr) -> bool:
        if not isinstance(called, ast.Name):
            return False
        for _ in range(5):
            name = called.id
            for statement in module.definitions.get(name, []):
                if isinstance(statement, ast.FunctionDef):
                    return True
            target = module.imports.get(name)
            other = self.finder.module(target.module) if target else None
            if target is None or target.attribute is None or other is None:
                return False
            module, called = other, ast.Name(target.attribute)
        return False

    def _text(self, value: str) -> None:
        """A string may name a module that is loaded or run, an exercise, or be code itself."""
        if value in self.finder.exercises and _EXERCISE.fullmatch(value):
            name, symbol = self.finder.exercises[value]
            module = self.finder.module(name)
            assert module is not None
            self._symbol(module, symbol, (), shown=False)
        elif _DOTTED.fullmatch(value):
            self._target(Target(value), (), Module("", self.finder.root, ""), shown=False)
            head, _, last = value.rpartition(".")
            module = self.finder.module(head)
            if self.finder.module(value) is None and module is not None:
                self._symbol(module, last, (), shown=False, builtin=True)
        elif _IMPORTS.search(value):
            tree = _parsed(value)
            if tree is not None:
                inner = Module("", self.finder.root, "")
                inner.add(tree)
                self.run_whole(inner)

    def _shown(
        self, module: Module, name: str, chain: tuple[str, ...], statements: list[ast.stmt]
    ) -> None:
        for statement in statements:
            part: ast.AST = statement
            label = f"{module.name}.{name}"
            for attribute in chain:
                inner = [
                    node
                    for node in ast.iter_child_nodes(part)
                    if getattr(node, "name", None) == attribute
                ]
                if not inner:
                    break
                part, label = inner[0], f"{label}.{attribute}"
            lines = module.source.splitlines()
            first, last = first_line(part), part.end_lineno  # type: ignore[arg-type,attr-defined]
            text = "\n".join(lines[first - 1 : last])
            self.reach.symbols[f"{label} {SHOWN}"] = text_digest(text)


def reach_of(
    root: Path, *, scripts: Iterable[Path] = (), sources: Iterable[str] = ()
) -> dict[str, str]:
    """The digests of everything that scripts or sources reach, by dotted name."""
    return Finder(root).reach(scripts=scripts, sources=sources).symbols


def without_magics(source: str) -> str:
    """Replace IPython's magic and shell lines by `pass`, so that the rest parses as Python."""
    return re.sub(r"^(\s*)[%!].*$", r"\1pass", source, flags=re.MULTILINE)


def _state(path: Path) -> tuple[int, int]:
    """What tells an edited file from itself: when it was written, and its size; 0 where gone."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(without_magics(source))
    except (SyntaxError, ValueError):
        return None


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
