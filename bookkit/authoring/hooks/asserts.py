"""Measures assertions: by how much each holds, and that a failing one does not end the page.

Run inside the kernel by its path. Every `assert` of a cell is rewritten before the cell is
compiled, so that its ordering comparisons (`<`, `<=`, `>`, `>=`) note their slack, see `slack.py`.
`all` and chains take the smallest slack of their parts, `or` and `any` the largest, `not` the
negative; the parts of `assert a and b` are noted apart, as two assertions. All other tests note
only whether they hold. An assertion that runs several times keeps its smallest slack and holds if
it held each time.

Inside a `try` that catches them, and inside `with` blocks that expect an exception, assertions
raise as ever and are not noted: there they are part of what the page does. Those of child
processes raise too.
"""

import ast
import builtins
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

SLACK = Path(__file__).with_name("slack.py")
HANDLE = "_nbkit_asserts"
RECORDER = "__import__('sys')." + HANDLE
ORDERINGS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
EXPECTING = ("raises", "suppress", "warns")
# What means something else inside the small functions that delay a part of a test.
UNMOVABLE = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
UNMOVABLE_NAMES = {"super", "locals", "vars", "eval", "__class__"}


class Rewriter(ast.NodeTransformer):
    """Rewrites the assertions of a cell; an IPython `ast_transformer`."""

    def __init__(self, name: Callable[[str], tuple[int, str]]) -> None:
        """Take what gives an assertion its cell and its name, by its text."""
        self.name = name
        self._in_class = False

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        """Names of a class's body are out of reach of a delayed part."""
        outside, self._in_class = self._in_class, True
        self.generic_visit(node)
        self._in_class = outside
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """A function's own names are within reach, a method's too."""
        outside, self._in_class = self._in_class, False
        self.generic_visit(node)
        self._in_class = outside
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        """`assert a and b` becomes `assert note_each(cell, (text of a, a), (text of b, b))`."""
        if self._in_class or _unmovable(node.test):
            cell, text = self.name(_text(node.test))
            noted = _call("note", ast.Constant(cell), ast.Constant(text), node.test)
            return _placed(ast.Assert(noted, node.msg), node)
        parts = [node.test]
        if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And):
            parts = node.test.values
        named = [(*self.name(_text(part)), _delayed(_measured(part))) for part in parts]
        pairs = [ast.Tuple([ast.Constant(text), test], ast.Load()) for _, text, test in named]
        noted = _call("note_each", ast.Constant(named[0][0]), *pairs)
        return _placed(ast.Assert(noted, node.msg), node)

    def visit_Try(self, node: ast.Try) -> ast.Try:
        """The body of a `try` that catches failed assertions is guarded."""
        self.generic_visit(node)
        if any(_catches(handler.type) for handler in node.handlers):
            node.body = _guarded(node.body)
        return node

    def visit_With(self, node: ast.With) -> ast.With:
        """The body of a `with pytest.raises(…)` and its like is guarded."""
        self.generic_visit(node)
        managers = " ".join(ast.unparse(item.context_expr) for item in node.items)
        if any(word in managers for word in EXPECTING):
            node.body = _guarded(node.body)
        return node


def _measured(node: ast.expr) -> ast.expr:
    """The expression that evaluates a test with its slack."""
    match node:
        case ast.BoolOp():
            parts = [_delayed(_measured(value)) for value in node.values]
            return _call("both" if isinstance(node.op, ast.And) else "either", *parts)
        case ast.UnaryOp(op=ast.Not()):
            return _call("negated", _measured(node.operand))
        case ast.Compare() if any(type(op) in ORDERINGS for op in node.ops):
            rest: list[ast.expr] = [
                ast.Tuple([ast.Constant(_sign(op)), _delayed(side)], ast.Load())
                for op, side in zip(node.ops, node.comparators, strict=True)
            ]
            return _call("chain", node.left, *rest)
        case ast.Call(
            func=ast.Name(id="all" | "any" as name),
            args=[ast.GeneratorExp() | ast.ListComp() as parts],
            keywords=[],
        ):
            measured = type(parts)(_measured(parts.elt), parts.generators)
            return _call("every" if name == "all" else "some", measured)
        case ast.Call(
            func=ast.Attribute(attr="all" | "any" as name, value=ast.Compare() as test),
            args=[],
            keywords=[],
        ) if _is_single_ordering(test):
            method = _lambda("x", ast.Call(ast.Attribute(_name("x"), name, ast.Load()), [], []))
            return _call("elements", ast.Constant(name), _measured(test), method)
        case ast.Call(
            func=ast.Attribute(attr="all" | "any" as name, value=ast.Name(id="torch" | "np")),
            args=[ast.Compare() as test],
            keywords=[],
        ) if _is_single_ordering(test):
            return _call("elements", ast.Constant(name), _measured(test), node.func)
    return node


def _text(test: ast.expr) -> str:
    return " ".join(ast.unparse(test).split())


def _is_single_ordering(test: ast.Compare) -> bool:
    return len(test.ops) == 1 and type(test.ops[0]) in ORDERINGS


def _unmovable(test: ast.expr) -> bool:
    return any(
        isinstance(node, UNMOVABLE) or (isinstance(node, ast.Name) and node.id in UNMOVABLE_NAMES)
        for node in ast.walk(test)
    )


def _catches(kind: ast.expr | None) -> bool:
    """Whether a handler may catch an AssertionError; a name that is no builtin may be its alias."""
    match kind:
        case None:
            return True
        case ast.Tuple():
            return any(_catches(one) for one in kind.elts)
        case ast.Name():
            known = getattr(builtins, kind.id, AssertionError)
            return issubclass(AssertionError, known)
    return False


def _guarded(body: list[ast.stmt]) -> list[ast.stmt]:
    yields = (ast.Yield, ast.YieldFrom, ast.Await)
    if any(isinstance(node, yields) for statement in body for node in ast.walk(statement)):
        return body  # a generator may stop in here and leave the guard standing
    block = ast.With([ast.withitem(_call("guarded"), None)], body)
    return [_placed(block, body[0])]


def _sign(operator: ast.cmpop) -> str:
    return ast.unparse(ast.Compare(_name("a"), [operator], [_name("b")]))[2:-2]


def _call(method: str, *arguments: ast.expr) -> ast.Call:
    recorder = ast.parse(RECORDER, mode="eval").body
    return ast.Call(ast.Attribute(recorder, method, ast.Load()), list(arguments), [])


def _delayed(body: ast.expr) -> ast.Lambda:
    return _lambda(None, body)


def _lambda(argument: str | None, body: ast.expr) -> ast.Lambda:
    arguments = [] if argument is None else [ast.arg(argument)]
    return ast.Lambda(
        ast.arguments(posonlyargs=[], args=arguments, kwonlyargs=[], kw_defaults=[], defaults=[]),
        body,
    )


def _name(identifier: str) -> ast.Name:
    return ast.Name(identifier, ast.Load())


def _placed(node: Any, old: ast.AST) -> Any:
    return ast.fix_missing_locations(ast.copy_location(node, old))


class Cells:
    """Counts the cells of a page as they begin; those that a magic runs inside one do not count."""

    def __init__(self) -> None:
        """Begin before the page's first cell."""
        self.now = 0

    def begin(self, info: Any) -> None:
        """Called by IPython before each cell."""
        self.now += bool(info.store_history)


def start() -> None:
    """Measure the assertions of this kernel's cells from the next cell on, the page's first."""
    from IPython import get_ipython

    shell = get_ipython()
    cells = Cells()
    recorder = runpy.run_path(str(SLACK))["Recorder"](
        lambda: cells.now,
        lambda: any(isinstance(one, Rewriter) for one in shell.ast_transformers),
    )
    setattr(sys, HANDLE, recorder)
    shell.events.register("pre_run_cell", cells.begin)
    shell.ast_transformers.append(Rewriter(recorder.name))
