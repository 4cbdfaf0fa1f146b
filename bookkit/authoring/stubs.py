"""Turns the code of a solution into the stub that a learner fills in."""

import ast
import io
import tokenize

from nbkit.errors import UserError

BEGIN = "# BEGIN SOLUTION"
END = "# END SOLUTION"


def stub_of(source: str) -> str:
    """Replace the bodies of a solution's functions, keeping signatures, hints and docstrings.

    Marked parts (`# BEGIN SOLUTION` … `# END SOLUTION`) are replaced alone where there are any;
    else the whole body of every function and method is.

    Raises:
        UserError: the markers do not match, the code does not parse, or there is nothing to cut.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise UserError(f"line {error.lineno} of the cell is not Python: {error.msg}") from error
    if has_markers(source):
        stub = _without_marked_parts(source)
    else:
        functions = list(_functions(tree))
        if not functions:
            raise UserError(
                f"the cell defines no function and has no `{BEGIN}`; mark what is to be cut, or "
                "tag the cell `solution-only` to leave it out"
            )
        stub = _without_bodies(source, functions)
    try:
        ast.parse(stub)
    except SyntaxError as error:
        raise UserError(f"cut at its markers, the cell is not Python: {error.msg}") from error
    return stub


def has_markers(source: str) -> bool:
    """Whether a part of the code is marked as solution."""
    return any(line.strip() in {BEGIN, END} for line in source.splitlines())


def _without_marked_parts(source: str) -> str:
    kept: list[str] = []
    begun = 0
    for number, line in enumerate(source.splitlines(), start=1):
        mark = line.strip()
        if mark == BEGIN:
            if begun:
                raise UserError(f"line {number} of the cell: `{BEGIN}` stands inside another")
            begun = number
            indent = line[: len(line) - len(line.lstrip())]
            kept.append(f"{indent}# Your code goes here.")
            kept.append(f'{indent}raise NotImplementedError("the marked part is to be written")')
        elif mark == END:
            if not begun:
                raise UserError(f"line {number} of the cell: `{END}` without `{BEGIN}`")
            begun = 0
        elif not begun:
            kept.append(line)
    if begun:
        raise UserError(f"line {begun} of the cell: `{BEGIN}` without `{END}`")
    return "\n".join(kept)


def _functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of the module and the methods of its classes, in order; none nested."""
    found: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(node)
        elif isinstance(node, ast.ClassDef):
            waiting = [*node.body, *waiting]
    return found


def _without_bodies(source: str, functions: list[ast.FunctionDef | ast.AsyncFunctionDef]) -> str:
    lines = source.splitlines()
    for function in reversed(functions):
        indent = " " * (function.col_offset + 4)
        head, rest = _head(function, lines)
        body = f'{indent}raise NotImplementedError("{function.name} is to be written")'
        lines[function.lineno - 1 : rest] = [*head, body]
    return "\n".join(lines)


def _head(
    function: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]
) -> tuple[list[str], int]:
    """The lines that stay (signature and docstring), and the number of the last that goes."""
    last = function.end_lineno or function.lineno
    indent = function.col_offset
    while last < len(lines) and _is_comment_deeper_than(indent, lines[last]):
        last += 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None and first.lineno > function.lineno:
        assert first.end_lineno is not None
        return lines[function.lineno - 1 : first.end_lineno], last
    row, column = _end_of_signature(lines[function.lineno - 1 :])
    head = lines[function.lineno - 1 : function.lineno + row]
    head[-1] = head[-1][:column]
    return head, last


def _end_of_signature(lines: list[str]) -> tuple[int, int]:
    """Where the colon of a `def` is: the row from 0, and the column after it."""
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
            if token.string == ":" and depth == 0:
                return token.end[0] - 1, token.end[1]
    raise UserError("a function's signature does not end")


def _is_comment_deeper_than(indent: int, line: str) -> bool:
    return line.lstrip().startswith("#") and len(line) - len(line.lstrip()) > indent
