"""What a string may name: a module, a name of one, a program to run, or code itself."""

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from bookkit.authoring.reach.sources import FOLDERS, parsed

_OURS = "|".join(FOLDERS)
_DOTTED = re.compile(rf"((?:{_OURS})(?:\.\w+)+)(?::(\w+))?")
_RUN = re.compile(rf"-m\s+((?:{_OURS})(?:\.\w+)+)")
# Modules of the package are not run by their paths; studies, benchmarks and jobs are.
_PATH = re.compile(r"(?:\.{1,2}/)*((?:studies|benchmarks|cluster_scripts)(?:/[\w.-]+)*/\w+\.py)")
_IMPORT = rf"(?:from|import)\s+(?:[\w.]+\s*,\s*)*(?:{_OURS})\b[^\n;]*"
_IMPORTS = re.compile(rf"(?:^|;)\s*({_IMPORT})", re.MULTILINE)


@dataclass(frozen=True)
class Named:
    """A dotted name of the checkout, of a module or of something in one."""

    name: str


@dataclass(frozen=True)
class Program:
    """A file that may be run as a program, from the root."""

    path: str


def mentions(text: str) -> Iterator[Named | Program | ast.Module]:
    """What a string names; code in it is given as its syntax tree.

    Code that does not parse, because a part of it is filled in, is taken for its imports; each
    then counts whole.
    """
    if dotted := _DOTTED.fullmatch(text):
        yield Named(".".join(part for part in dotted.groups() if part))
    elif path := _PATH.fullmatch(text):
        yield Program(path[1])
    else:
        yield from map(Named, _RUN.findall(text))
        if _IMPORTS.search(text):
            yield from _code(text)


def _code(text: str) -> Iterator[ast.Module]:
    tree = parsed(textwrap.dedent(text))
    if tree is not None:
        yield tree
        return
    for line in _IMPORTS.findall(text):
        tree = parsed(line)
        if tree is not None:
            names = [
                alias.asname or alias.name.split(".")[0]
                for statement in tree.body
                if isinstance(statement, ast.Import | ast.ImportFrom)
                for alias in statement.names
            ]
            tree.body += ast.parse("\n".join(name for name in names if name != "*")).body
            yield tree
