"""One walk from some code to everything of the checkout that it can come to."""

import ast
import re
from dataclasses import dataclass, field

from nbkit.authoring.reach.digests import code_digest, combined_digest, text_digest
from nbkit.authoring.reach.modules import Module, Target, calls, first_line
from nbkit.authoring.reach.names import Loaded, Text, Use
from nbkit.authoring.reach.sources import FOLDERS, Sources, parsed

IMPORTING = "(on import)"
SHOWN = "(as shown)"
ABSENT = "absent"
_DOTTED = re.compile(rf"({'|'.join(FOLDERS)})((\.\w+)+)")
_IMPORTS = re.compile(rf"^\s*(from|import) ({'|'.join(FOLDERS)})\b", re.MULTILINE)
_EXERCISE = re.compile(r"[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)+")


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


class Walk:
    """One walk from some code to everything that it reaches."""

    def __init__(self, finder: Sources) -> None:
        """Begin with nothing reached."""
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
            tree = parsed(value)
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
