"""What a solution page says of an exercise: its title, its numbers, its solution as code."""

import ast
import builtins
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from bookkit.exercises.exercise import Check, Edit, Exercise, Mutant

_SECTION = re.compile(r"^## ", re.MULTILINE)
_FACTS = re.compile(
    r"^`(?P<id>[\w.-]+)` · difficulty (?P<difficulty>\d) of 5 · (?P<minutes>\d+) minutes$",
    re.MULTILINE,
)
_CELL = re.compile(
    r"^```\{code-cell\}.*\n(?P<options>(?::.*\n)*)(?P<code>(?:.*\n)*?)^```$", re.MULTILINE
)
_CHECKED = re.compile(r"^nbkit\.check\(\"(?P<id>[^\"]+)\", (?P<function>\w+)\)", re.MULTILINE)


class BadSolution(ValueError):  # noqa: N818 (says what it is)
    """A solution page lacks what an exercise needs of it, or an edit does not fit its solution."""


@dataclass(frozen=True)
class Section:
    """What a solution page says of one exercise.

    ``function`` is the name of what is checked, ``source`` the cell that defines it, ``before`` the
    code of the cells above it, in their order.
    """

    id: str
    title: str
    difficulty: int
    minutes: int
    function: str
    source: str
    before: tuple[str, ...]


def sections_of(page: str) -> Iterator[Section]:
    """The exercises of a solution page, in their order.

    Raises:
        BadSolution: a section with an exercise lacks its solution or its check.
    """
    before: list[str] = []
    for part in _SECTION.split(page):
        facts = _FACTS.search(part)
        cells = [(cell["options"], cell["code"]) for cell in _CELL.finditer(part)]
        if facts:
            yield _section(part.splitlines()[0], facts, cells, tuple(before))
        before += [code for options, code in cells if "[try-it]" not in options]


def _section(
    title: str, facts: re.Match[str], cells: list[tuple[str, str]], before: tuple[str, ...]
) -> Section:
    checked = [m for _, code in cells for m in _CHECKED.finditer(code) if m["id"] == facts["id"]]
    for place, (options, code) in enumerate(cells):
        if checked and "[solution]" in options:
            above = [c for o, c in cells[:place] if "[try-it]" not in o]
            numbers = int(facts["difficulty"]), int(facts["minutes"])
            name = checked[0]["function"]
            return Section(facts["id"], title, *numbers, name, code, (*before, *above))
    raise BadSolution(
        f"the section of {facts['id']} on its solution page needs a cell tagged `solution` and one "
        f'that calls nbkit.check("{facts["id"]}", …): write it there'
    )


def solve(check: Check, section: Section, chapter: int) -> Exercise:
    """Make an exercise of its check and its section: the reference, and all mutants as functions.

    Raises:
        BadSolution: an edit's old text does not stand exactly once in the solution, or an edit
            changes nothing of its code.
    """
    sources = {m.name: edited(m, section) for m in check.mutants if isinstance(m, Edit)}
    around = _names_around(section, [section.source, *sources.values()])
    functions = {name: _function(source, section, around) for name, source in sources.items()}
    mutants = tuple(
        m if isinstance(m, Mutant) else Mutant(m.name, functions[m.name], m.message)
        for m in check.mutants
    )
    stated = {field.name: getattr(check, field.name) for field in fields(Check)}
    return Exercise(
        **{**stated, "mutants": mutants},
        title=section.title,
        chapter=chapter,
        difficulty=section.difficulty,
        minutes=section.minutes,
        goal=_goal(section),
        reference=_function(section.source, section, around),
    )


def edited(mutant: Edit, section: Section) -> str:
    """The solution's cell with the edits of a mutant made.

    Raises:
        BadSolution: an old text does not stand exactly once, or nothing of the code is changed.
    """
    source, who = section.source, f"mutant {mutant.name!r} of {section.id}"
    for old, new in mutant.pairs:
        if source.count(old) != 1:
            raise BadSolution(
                f"{who}: {old!r} must stand exactly once in the solution, and stands there "
                f"{source.count(old)} times: copy more of the text around it"
            )
        source = source.replace(old, new)
    if _code(source) == _code(section.source):
        raise BadSolution(f"{who} is the solution: edit what it does, not how it is written")
    return source


def _goal(section: Section) -> str:
    """The first paragraph of the function's docstring."""
    for node in ast.parse(section.source).body:
        if isinstance(node, ast.FunctionDef) and node.name == section.function:
            text = ast.get_docstring(node) or ""
            return " ".join(text.partition("\n\n")[0].split())
    raise BadSolution(f"the solution of {section.id} does not define {section.function}")


def _function(source: str, section: Section, around: dict[str, Any]) -> Callable[..., Any]:
    names = dict(around)
    exec(compile(source, f"<{section.id}>", "exec"), names)
    return names[section.function]


def _names_around(section: Section, sources: Iterable[str]) -> dict[str, Any]:
    """What the cells above bind and some code needs: imports, functions, classes, constants.

    Raises:
        BadSolution: neither Python nor a cell above binds a name that the code needs.
    """
    above = [statement for code in section.before for statement in _statements(code)]
    needed = set().union(*(_free(ast.parse(source)) for source in sources))
    kept: set[int] = set()
    while True:
        new = {i for i, s in enumerate(above) if i not in kept and needed & _bound(s)}
        if not new:
            break
        kept |= new
        needed |= set().union(*(_free(above[i]) for i in new))
    names: dict[str, Any] = {"__name__": f"solution of {section.id}"}
    module = ast.Module([above[i] for i in sorted(kept)], [])
    exec(compile(module, f"<above {section.id}>", "exec"), names)
    unknown = sorted(needed - names.keys() - set(dir(builtins)))
    if unknown:
        raise BadSolution(
            f"the solution of {section.id}, or a mutant of it, uses {unknown[0]!r}, which no cell "
            "above binds: import it on the page, or write the edit without it"
        )
    return names


def _statements(code: str) -> list[ast.stmt]:
    try:
        return ast.parse(code).body
    except SyntaxError:  # a cell with a command of IPython, which defines nothing
        return []


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement binds, of the kinds that a solution may lean on."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {(a.asname or a.name).split(".")[0] for a in statement.names}
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Assign):
        inside = [node for target in statement.targets for node in ast.walk(target)]
        return {node.id for node in inside if isinstance(node, ast.Name)}
    return set()


def _free(tree: ast.AST) -> set[str]:
    """The names that code reads and nowhere binds."""
    nodes = list(ast.walk(tree))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return {node.id for node in names} - bound


def _code(source: str) -> str:
    """The code of a cell, as it is whatever its docstrings and format are."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)
