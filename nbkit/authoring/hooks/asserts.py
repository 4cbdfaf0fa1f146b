"""Measures assertions: by how much each holds, and that a failing one does not end the page.

Run inside the kernel by its path. Every `assert` of a cell is rewritten before the cell is
compiled. Its ordering comparisons (`<`, `<=`, `>`, `>=`) note their *slack*: how far the left side
is from breaking the assertion, positive while it holds; of tensors the smallest element's counts.
`and`, `all` and chains take the smallest slack of their parts, `or` and `any` the largest, `not`
the negative. All other tests note only whether they hold. An assertion that runs several times
keeps its smallest slack and holds if it held each time.

Inside a `try` with handlers, and inside `with` blocks that expect an exception, assertions raise
as ever and are not noted: there they are part of what the page does. So are those that fail in
child processes.
"""

import ast
import json
import math
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

HANDLE = "_nbkit_asserts"
RECORDER = "__import__('sys')." + HANDLE
ORDERINGS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
EXPECTING = ("raises", "suppress", "warns")
# What means something else inside the small functions that delay a part of a test.
UNMOVABLE = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
UNMOVABLE_NAMES = {"super", "locals", "vars", "eval", "__class__"}


@dataclass(frozen=True)
class Result:
    """What a part of a test came to: its value as the page sees it, and its slack if it has one.

    `low` and `high` are the smallest and the largest slack of the elements of a tensor; for
    numbers they are the same.
    """

    value: Any
    low: float | None = None
    high: float | None = None

    def __bool__(self) -> bool:
        return bool(self.value)


class Recorder:
    """Takes the notes of one kernel; the rewritten cells find it on `sys`."""

    def __init__(self, cell_number: Callable[[], int], rewrites: Callable[[], bool]) -> None:
        """Take what tells the notes where they are.

        Args:
            cell_number: says which code cell of the page runs now, counted from 1.
            rewrites: says whether cells are still rewritten.
        """
        self.cell_number, self.rewrites = cell_number, rewrites
        self.process = os.getpid()
        self.notes: dict[tuple[int, str], dict[str, Any]] = {}
        self.seen: Counter[tuple[int, str]] = Counter()
        self._guards = threading.local()

    def name(self, test: ast.expr) -> tuple[int, str]:
        """The cell and the text of an assertion, made unique within its cell."""
        key = (self.cell_number(), " ".join(ast.unparse(test).split()))
        self.seen[key] += 1
        count = self.seen[key]
        return key if count == 1 else (key[0], f"{key[1]} ({count})")

    def note(self, cell: int, text: str, result: Any) -> bool:
        """Note one run of an assertion; True unless it failed where it must still raise."""
        held = bool(result)
        if getattr(self._guards, "depth", 0) or os.getpid() != self.process:
            return held
        slack = result.low if isinstance(result, Result) else None
        before = self.notes.setdefault(
            (cell, text), {"cell": cell, "text": text, "slack": None, "holds": True}
        )
        before["slack"] = smallest([before["slack"], finite(slack)])
        before["holds"] = before["holds"] and held
        return True

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """While this is entered, assertions raise as ever and are not noted."""
        self._guards.depth = getattr(self._guards, "depth", 0) + 1
        try:
            yield
        finally:
            self._guards.depth -= 1

    def report_json(self) -> str:
        """Every assertion that ran, as JSON: `{"cell", "text", "slack" (or None), "holds"}` each.

        Raises:
            RuntimeError: IPython has dropped the rewriting after an error in it.
        """
        if not self.rewrites():
            raise RuntimeError("the rewriting of assertions failed in a cell; see its output")
        return json.dumps(list(self.notes.values()))

    @staticmethod
    def chain(left: Any, *rest: tuple[str, Callable[[], Any]]) -> Result:
        """Evaluate `left < right <= …`, each side once and no further than Python would."""
        lows, highs = [], []
        value: Any = True
        for operator, side in rest:
            right = side()
            value = _compare(left, operator, right)
            low, high = slack_of(left, operator, right)
            lows.append(low)
            highs.append(high)
            if len(rest) > 1 and not value:
                break
            left = right
        return Result(value, smallest(lows), smallest(highs))

    @staticmethod
    def both(*parts: Callable[[], Any]) -> Result:
        """Evaluate `a and b`."""
        results = []
        for part in parts:
            results.append(part())
            if not results[-1]:
                break
        return Result(_plain(results[-1]), smallest(_lows(results)), smallest(_highs(results)))

    @staticmethod
    def either(*parts: Callable[[], Any]) -> Result:
        """Evaluate `a or b`."""
        results = []
        for part in parts:
            results.append(part())
            if results[-1]:
                break
        return Result(_plain(results[-1]), largest(_lows(results)), largest(_highs(results)))

    @staticmethod
    def negated(result: Any) -> Result:
        """Evaluate `not a`."""
        if not isinstance(result, Result):
            return Result(not result)
        low = None if result.high is None else -result.high
        high = None if result.low is None else -result.low
        return Result(not result, low, high)

    @staticmethod
    def every(results: Iterable[Any]) -> Result:
        """Evaluate `all(…)`, on to the end, so that the smallest slack of all is known."""
        found = _exhausted(results, until=False)
        return Result(all(found), smallest(_lows(found)), smallest(_lows(found)))

    @staticmethod
    def some(results: Iterable[Any]) -> Result:
        """Evaluate `any(…)`, on to the end, so that the largest slack of all is known."""
        found = _exhausted(results, until=True)
        return Result(any(found), largest(_highs(found)), largest(_highs(found)))

    @staticmethod
    def elements(name: str, result: Any, method: Callable[[Any], Any]) -> Result:
        """Evaluate `(a < b).all()`, `torch.any(a < b)` and their like."""
        slack = result.low if name == "all" else result.high
        return Result(method(result.value), slack, slack)


def slack_of(left: Any, operator: str, right: Any) -> tuple[float | None, float | None]:
    """The slack of one comparison, the smallest and the largest of its elements; None: has none."""
    if operator not in ORDERINGS.values():
        return None, None
    left, right = _numbers(left), _numbers(right)
    if left is None or right is None:
        return None, None
    try:
        difference = right - left if operator[0] == "<" else left - right
    except (TypeError, ValueError, RuntimeError):
        return None, None  # shapes or kinds that cannot be subtracted: no slack, only a truth
    if not hasattr(difference, "min"):
        return float(difference), float(difference)
    size = difference.numel() if hasattr(difference, "numel") else difference.size
    if size == 0:
        return None, None
    return float(difference.min()), float(difference.max())


def finite(slack: float | None) -> float | None:
    """The slack, or None where it is infinite or no number."""
    return slack if slack is not None and math.isfinite(slack) else None


def smallest(slacks: Iterable[float | None]) -> float | None:
    """The smallest of the slacks that there are; no number where one of them is none."""
    known = [slack for slack in slacks if slack is not None]
    return math.nan if any(map(math.isnan, known)) else min(known, default=None)


def largest(slacks: Iterable[float | None]) -> float | None:
    """The largest of the slacks that there are; no number where one of them is none."""
    known = [slack for slack in slacks if slack is not None]
    return math.nan if any(map(math.isnan, known)) else max(known, default=None)


class Rewriter(ast.NodeTransformer):
    """Rewrites the assertions of a cell; an IPython `ast_transformer`."""

    def __init__(self, name: Callable[[ast.expr], tuple[int, str]]) -> None:
        """Take what names an assertion by its test."""
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
        """`assert test` becomes `assert note(cell, text, test)`."""
        cell, text = self.name(node.test)
        plain = self._in_class or _unmovable(node.test)
        test = node.test if plain else _measured(node.test)
        noted = _call("note", ast.Constant(cell), ast.Constant(text), test)
        return _placed(ast.Assert(noted, node.msg), node)

    def visit_Try(self, node: ast.Try) -> ast.Try:
        """The body of a `try` with handlers is guarded."""
        self.generic_visit(node)
        if node.handlers:
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
            generator = ast.GeneratorExp(_measured(parts.elt), parts.generators)
            if isinstance(parts, ast.ListComp):
                return _call(
                    "every" if name == "all" else "some",
                    ast.ListComp(generator.elt, generator.generators),
                )
            return _call("every" if name == "all" else "some", generator)
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


def _is_single_ordering(test: ast.Compare) -> bool:
    return len(test.ops) == 1 and type(test.ops[0]) in ORDERINGS


def _unmovable(test: ast.expr) -> bool:
    return any(
        isinstance(node, UNMOVABLE) or (isinstance(node, ast.Name) and node.id in UNMOVABLE_NAMES)
        for node in ast.walk(test)
    )


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


def _compare(left: Any, operator: str, right: Any) -> Any:
    match operator:
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
        case "==":
            return left == right
        case "!=":
            return left != right
        case "in":
            return left in right
        case "not in":
            return left not in right
        case "is":
            return left is right
    return left is not right


def _numbers(value: Any) -> Any:
    """A number or an array of numbers in double precision; None for anything else."""
    if isinstance(value, str | bytes | complex):
        return None
    try:
        if hasattr(value, "detach"):
            return value.detach().double()
        if hasattr(value, "dtype") and hasattr(value, "astype"):
            return value.astype(float)
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None


def _exhausted(results: Iterable[Any], *, until: bool) -> list[Any]:
    """All results; past the one that decides, where the page would stop, errors end the search."""
    found: list[Any] = []
    decided = False
    iterator = iter(results)
    while True:
        try:
            result = next(iterator)
            truth = bool(result)
        except StopIteration:
            return found
        except Exception:
            if decided:
                return found
            raise
        found.append(result)
        decided = decided or truth is until


def _plain(result: Any) -> Any:
    return result.value if isinstance(result, Result) else result


def _lows(results: Iterable[Any]) -> list[float | None]:
    return [result.low for result in results if isinstance(result, Result)]


def _highs(results: Iterable[Any]) -> list[float | None]:
    return [result.high for result in results if isinstance(result, Result)]


def start() -> None:
    """Measure the assertions of this kernel's cells from the next cell on.

    The cell that calls this is the kernel's first, so the page's first cell is the second one.
    """
    from IPython import get_ipython

    shell = get_ipython()
    recorder = Recorder(
        lambda: shell.execution_count - 1, lambda: rewriter in shell.ast_transformers
    )
    rewriter = Rewriter(recorder.name)
    setattr(sys, HANDLE, recorder)
    shell.ast_transformers.append(rewriter)
