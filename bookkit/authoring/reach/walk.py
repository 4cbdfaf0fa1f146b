"""One walk from some code to everything of the checkout that it can come to."""

import ast
import re
from dataclasses import replace
from pathlib import Path

from bookkit.authoring.reach.digests import (
    code_digest,
    file_digest,
    text_digest,
)
from bookkit.authoring.reach.importing import doing
from bookkit.authoring.reach.lookup import binds, data_named, is_submodule, resolved, starred
from bookkit.authoring.reach.modules import Module, Target, source_of
from bookkit.authoring.reach.names import Loaded, Text, Use
from bookkit.authoring.reach.reached import ABSENT, IMPORTING, RUN, SHOWN, Reach
from bookkit.authoring.reach.sources import Sources
from bookkit.authoring.reach.strings import Named, Program, mentions

_LAZY = "_LAZY"
_HOOKS = ("__getattr__", _LAZY)
# What may ask for any name of the module around.
_ANY_NAME = {"globals", "eval", "exec"}
_EXERCISE = re.compile(r"[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)+")


class Walk:
    """One walk from some code to everything that it reaches."""

    def __init__(self, finder: Sources) -> None:
        """Begin with nothing reached."""
        self.finder = finder
        self.reach = Reach()
        self._waiting: list[tuple[Module, list[ast.stmt]]] = []
        # By identity; the statements are kept, or another one could get the same.
        self._followed: dict[int, ast.stmt] = {}
        self._whole: set[str] = set()
        self._programs: set[Path] = set()

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
        lazy = module.typed if "__getattr__" in module.definitions else {}
        for symbol in {**module.definitions, **module.imports, **lazy}:
            self._symbol(module, symbol, (), shown=False)
        for star in module.stars:
            self.whole(star)

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
            for path in data_named(module, use.value):
                name = path.relative_to(self.finder.root).as_posix()
                self.reach.symbols[name] = file_digest(path)
        elif use.target is not None:
            self._target(use.target, use.chain, module, use.shown)
        elif use.name is not None:
            if use.name in _ANY_NAME and module.name:
                self._whole_once(module.name)
            self._symbol(module, use.name, use.chain, shown=use.shown, builtin=True)

    def _whole_once(self, name: str) -> None:
        if name not in self._whole:
            self._whole.add(name)
            self.whole(name)

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
        if statements and module.name:
            if key not in self.reach.symbols:
                self.reach.symbols[key] = self.finder.digest(module, name, statements)
                self._import(module.name)
                self._follow(module, statements)
            if shown:
                self._shown(module, name, chain, statements)
        if name in module.imports:
            self._alias(module, key, module.imports[name], chain, shown)
        elif statements:
            return
        elif stars := starred(self.finder, module, name):
            self._alias(module, key, [Target(star, name) for star in stars], chain, shown)
        elif name == "__doc__" and module.name:
            text = ast.get_docstring(ast.parse(module.source), clean=False)
            self.reach.symbols[f"{key} {SHOWN}"] = text_digest(str(text))
        elif not builtin and "__getattr__" in module.definitions:
            self._lazy(module, key, name, chain, shown)
        elif not builtin:
            self._import(module.name)
            self.reach.symbols[key] = ABSENT

    def _alias(
        self,
        module: Module,
        key: str,
        targets: list[Target],
        chain: tuple[str, ...],
        shown: bool,
    ) -> None:
        if module.name:
            self._import(module.name)
            self.reach.symbols.setdefault(f"{key} (import)", text_digest(repr(targets)))
        for target in targets:
            self._target(target, chain, module, shown)

    def _lazy(
        self, module: Module, key: str, name: str, chain: tuple[str, ...], shown: bool
    ) -> None:
        """A name that `__getattr__` of the module loads; its typed import says from where.

        The table of such names, `_LAZY`, names modules, and would reach them all: it counts, and
        is not followed. Without a typed import everything is that `__getattr__` can come to.
        """
        if name not in module.typed:
            self._symbol(module, "__getattr__", (), shown=False)
            return
        self._import(module.name)
        self._hooks(module)
        self._alias(module, key, module.typed[name], chain, shown)

    def _hooks(self, module: Module) -> None:
        known = f"{module.name}.__getattr__" in self.reach.symbols
        for hook in () if known or "__getattr__" not in module.definitions else _HOOKS:
            for statement in module.definitions.get(hook, []):
                found = self.finder.digest(module, hook, module.definitions[hook])
                self.reach.symbols[f"{module.name}.{hook}"] = found
                for use in self.finder.uses_of(module, statement) if hook != _LAZY else ():
                    if not (isinstance(use, Use) and use.name == _LAZY):
                        self._use(module, use)

    def _target(
        self, target: Target, chain: tuple[str, ...], importer: Module, shown: bool
    ) -> None:
        names = (target.attribute, *chain) if target.attribute else chain
        name = resolved(self.finder, target.module, importer)
        if name is None:
            return
        module = self.finder.module(name)
        while names and is_submodule(self.finder, name, module, names[0]):
            name, names = f"{name}.{names[0]}", names[1:]
            module = self.finder.module(name)
        self._import(name)
        if not names:
            self.whole(name)
            if shown and module is not None:
                self.reach.symbols[f"{name} {SHOWN}"] = text_digest(module.source)
        elif module is not None:
            self._symbol(module, names[0], names[1:], shown=shown)

    def _load(self, target: Target, importer: Module) -> None:
        name = resolved(self.finder, target.module, importer)
        if name is None:
            return
        self._import(name)
        module, attribute = self.finder.module(name), target.attribute
        if attribute is None or attribute == "*":
            return
        if is_submodule(self.finder, name, module, attribute):
            self._import(f"{name}.{attribute}")
            if module is not None:  # Python asks `__getattr__` before it loads a submodule
                self._hooks(module)
        elif module is not None and not binds(self.finder, module, attribute):
            # The import fails, even if nothing uses the name.
            self.reach.symbols[f"{name}.{attribute}"] = ABSENT

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
        effects = doing(self.finder, module)
        if effects:
            found = self.finder.digest(module, IMPORTING, effects)
            self.reach.symbols[f"{name} {IMPORTING}"] = found
            self._follow(module, effects)
        for target in sorted(module.imported, key=str):
            self._load(target, module)

    def _text(self, value: str) -> None:
        """A string may name a module that is loaded or run, an exercise, or be code itself."""
        if value in self.finder.exercises and _EXERCISE.fullmatch(value):
            name, symbol = self.finder.exercises[value]
            module = self.finder.module(name)
            assert module is not None
            self._symbol(module, symbol, (), shown=False)
            return
        for mentioned in mentions(value):
            if isinstance(mentioned, Named):
                self._named(mentioned.name)
            elif isinstance(mentioned, Program):
                self._program(self.finder.root / mentioned.path)
            else:
                inner = Module("", self.finder.root, "")
                inner.add(mentioned)
                self.run_whole(inner)

    def _named(self, name: str) -> None:
        self._target(Target(name), (), Module("", self.finder.root, ""), shown=False)
        for program in (name, f"{name}.__main__"):
            found = self.finder.module(program)
            if found is not None and (found.main or program != name):
                statements = [*found.main, *(found.effects if program != name else ())]
                self._import(program)
                key = f"{program} {RUN}"
                self.reach.symbols[key] = self.finder.digest(found, RUN, statements)
                self._follow(found, statements)
        head, _, last = name.rpartition(".")
        module = self.finder.module(head)
        if self.finder.module(name) is None and module is not None:
            self._symbol(module, last, (), shown=False, builtin=True)

    def _program(self, path: Path) -> None:
        if path.is_file() and path not in self._programs:
            self._programs.add(path)
            self.run_whole(self.finder.script(path))

    def _shown(
        self, module: Module, name: str, chain: tuple[str, ...], statements: list[ast.stmt]
    ) -> None:
        """The source of a definition; that of what another name or a base class stands for."""
        for statement in statements:
            label, text, whole = source_of(module, name, chain, statement)
            if f"{label} {SHOWN}" in self.reach.symbols and whole:
                continue
            self.reach.symbols[f"{label} {SHOWN}"] = text_digest(text)
            if not whole or not isinstance(statement, ast.FunctionDef | ast.ClassDef):
                for use in self.finder.uses_of(module, statement):
                    if isinstance(use, Use) and use.name not in {name, None}:
                        self._use(module, replace(use, shown=True, chain=use.chain or chain))
