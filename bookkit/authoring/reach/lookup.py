"""Where a name of the checkout leads: to a module, a folder, or what a star import brought."""

import re
from pathlib import Path

from bookkit.authoring.reach.modules import Module
from bookkit.authoring.reach.sources import FOLDERS, PACKAGES, Sources

_BESIDE = re.compile(r"[\w-]+(\.[\w-]+)*(/[\w-]+(\.[\w-]+)*)*")


def resolved(finder: Sources, name: str, importer: Module) -> str | None:
    """The dotted name from the root: a script finds its neighbours by their bare names."""
    if finder.file_of(name) or is_folder(finder, name):
        return name
    if importer.name and not importer.name.startswith(PACKAGES):
        near = f"{importer.name.rpartition('.')[0]}.{name}"
        if finder.file_of(near):
            return near
    return None


def is_folder(finder: Sources, name: str) -> bool:
    """Whether a dotted name is a folder of the checkout, with or without `__init__.py`."""
    parts = name.split(".")
    return parts[0] in FOLDERS and finder.root.joinpath(*parts).is_dir()


def is_submodule(finder: Sources, name: str, module: Module | None, attribute: str) -> bool:
    """Whether an attribute of a package is a module below it, and not a name that it binds."""
    if module is not None and (attribute in module.definitions or attribute in module.imports):
        return False
    inner = f"{name}.{attribute}"
    return finder.file_of(inner) is not None or is_folder(finder, inner)


def starred(finder: Sources, module: Module, name: str) -> list[str]:
    """The modules from which `from … import *` may have brought a name."""
    return [star for star in module.stars if _gives(finder, star, name, module)]


def binds(finder: Sources, module: Module, name: str) -> bool:
    """Whether a module has a name, as far as its source can tell."""
    known = {*module.definitions, *module.imports}
    always = name.startswith("__") or "__getattr__" in known
    return always or name in known or bool(starred(finder, module, name))


def data_named(module: Module, text: str) -> list[Path]:
    """The data that a string in a module names: a file beside it; of the package, a folder too.

    Compiled code may read them, which nobody sees, or a module that is imported once for many.
    """
    if not module.name or not _BESIDE.fullmatch(text):
        return []
    place = module.path.parent / text
    folder = module.name.startswith(PACKAGES) and place.is_dir()
    paths = sorted(place.rglob("*")) if folder else [place]
    return [p for p in paths if p.is_file() and p.suffix not in {".py", ".pyc", ".pyi"}]


def _gives(finder: Sources, star: str, name: str, importer: Module) -> bool:
    place = resolved(finder, star, importer)
    module = finder.module(place) if place else None
    return module is not None and (
        name in module.definitions
        or name in module.imports
        or any(_gives(finder, inner, name, module) for inner in module.stars)
    )
