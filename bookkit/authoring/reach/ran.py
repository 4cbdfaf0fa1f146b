"""What a page really ran, held against what the finder says that it can reach."""

from collections.abc import Iterable
from pathlib import Path

from bookkit.authoring.reach.closure import Finder
from bookkit.authoring.reach.reached import IMPORTING, Reach

Note = tuple[str, int, str]  # file from the root, first line of the code, "call" or "import"


def read_notes(folder: Path) -> list[Note]:
    """Read the notes of all processes of a run, as `hooks/ran.py` wrote them."""
    found: set[Note] = set()
    for path in sorted(folder.glob("*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            file, first, how = line.split("\t")
            found.add((file, int(first), how))
    return sorted(found)


def ran_symbols(finder: Finder, notes: Iterable[Note]) -> list[str]:
    """The symbols of the checkout that were called, by dotted name, sorted.

    What ran only while its module was imported is not among them: importing a module runs its top,
    whatever is used of it afterwards.
    """
    return sorted(
        {name for file, line, how in notes if how == "call" for name in _names(finder, file, line)}
    )


def loaded_with_effects(finder: Finder, notes: Iterable[Note]) -> list[str]:
    """The modules that were loaded and do more at import than define names, sorted."""
    files = {file for file, _, _ in notes}
    found = [finder.module(_dotted(file)) for file in files]
    return sorted(module.name for module in found if module and module.effects)


def missed(finder: Finder, reach: Reach, ran: Iterable[str]) -> list[str]:
    """The symbols that ran and that the reach does not hold: mistakes of the finder.

    What is no longer defined where it ran has been renamed or moved since: its callers, which are
    in the reach, are other code now, and that is what makes the page stale.
    """
    return [name for name in ran if not _is_in(finder, reach, name) and not _is_gone(finder, name)]


def _is_gone(finder: Finder, name: str) -> bool:
    module, _, symbol = name.rpartition(".")
    found = None if name.endswith(f" {IMPORTING}") else finder.module(module)
    return found is not None and symbol not in found.definitions


def _is_in(finder: Finder, reach: Reach, name: str) -> bool:
    if name in reach.symbols:
        return True
    module, _, symbol = name.removesuffix(f" {IMPORTING}").rpartition(".")
    # A script that runs as a program is reached whole, under its own name.
    if module in reach.symbols or name in reach.modules:
        return True
    # What importing a module registers is part of what importing it does.
    found = finder.module(module) if f"{module} {IMPORTING}" in reach.symbols else None
    statements = found.definitions.get(symbol, []) if found else []
    return any(statement in found.effects for statement in statements) if found else False


def _names(finder: Finder, file: str, line: int) -> list[str]:
    module = finder.module(_dotted(file))
    if module is None:
        return []
    bound = module.bound_at(line)
    # One name of several that a statement binds is enough to have it reached.
    return [f"{module.name}.{bound[0]}"] if bound else [f"{module.name} {IMPORTING}"]


def _dotted(file: str) -> str:
    parts = list(Path(file).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
