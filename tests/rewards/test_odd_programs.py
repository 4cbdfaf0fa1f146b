"""Right programs that judges call wrong, tests that run nothing, endings of a program's choice."""

import sys

import pytest

from nbkit.rewards import code_score, run_code
from nbkit.rewards.apps import Problem, problem_score, same_output
from nbkit.rewards.code import code_verdict


@pytest.fixture
def long_integers():
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    yield
    sys.set_int_max_str_digits(limit)


def test_a_program_may_print_a_long_integer(long_integers):
    problem = Problem("", ("9000\n",), (f"{3**9000}\n{7**9000}\n",))
    assert problem_score("n = int(input())\nprint(3**n)\nprint(7**n)", problem) == 1.0


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        ("0.3333333333333333\n", "0.333333333", True),
        ("0.666667", "0.6666666666666666", True),
        ("x = 1e-07 m", "x = 0.0000001 m", True),
        ("2000000.5", "2000001.0", True),
        ("5", "5.0", True),
        ("0.3334", "0.333333333", False),
        ("1000001", "1000000", False),
        ("1000000.0", "1000000", False),
        ("0.5 0.25", "0.5", False),
        ("0.5\n0.25", "0.5 0.25", False),
        ("nan", "0.5", False),
        ("inf", "1e400", False),
        ("1/3", "0.333333333", False),
        ("version 1.2.3", "version 1.2.4", False),
    ],
)
def test_decimals_may_differ_in_their_last_digits(printed, expected, same):
    assert same_output(printed, expected) == same


def test_a_function_s_decimals_too():
    problem = Problem("", ([3], [7]), ([1 / 3, 2.0], [0.142857142857, 2.0]), "f")
    assert problem_score("def f(x): return [1 / x, 2]", problem) == 1.0
    assert problem_score("def f(x): return [1 / x + 1e-4, 2]", problem) == 0.0
    exact = Problem("", ([3],), (1000000,), "f")
    assert problem_score("def f(x): return 1000000.5", exact) == 0.0


GOOD = "def f(x):\n    return x + 1\n"


@pytest.mark.parametrize(
    "tests",
    [
        "def check(candidate):\n    assert candidate(1) == 2\n",
        "def test_f():\n    assert f(1) == 2\n",
        "def run():\n    assert f(1) == 2\nif __name__ == '__main__':\n    run()\n",
        "for x in []:\n    assert f(x) == x + 1\n",
    ],
)
def test_tests_that_run_nothing_are_at_fault(tests):
    with pytest.raises(ValueError, match="without reaching an assert"):
        code_verdict(GOOD, tests)


@pytest.mark.parametrize(
    ("solution", "tests"),
    [
        ("def cases():\n    return []\n", "for x in cases():\n    assert x\n"),
        ("CASES = []\n", "for x in CASES:\n    assert x\n"),
        ("def f(x) return x", "def check():\n    assert f(1) == 2\n"),
        ("raise SystemExit(0)", "assert f(1) == 2"),
    ],
)
def test_a_solution_that_makes_its_tests_vanish_scores_nothing(solution, tests):
    assert code_score(solution, tests) == 0.0


@pytest.mark.parametrize(
    ("solution", "tests", "score"),
    [
        ("def f(a): a.reverse()", "a = [1, 2, 3]\nf(a)\nassert a == [3, 2, 1]", 1.0),
        ("def f(a): a.pop()", "a = [1, 2, 3]\nf(a)\nassert a == [3, 2, 1]", 0.0),
        (
            "def f(a, *, b): b.update(a)",
            "b = {1: 2}\nf({3: 4}, b=b)\nassert b == {1: 2, 3: 4}",
            1.0,
        ),
        ("def f(s): s.clear(); s.add(5)", "s = {1}\nf(s)\nassert s == {5}", 1.0),
        ("def f(b): b[0] = 7", "b = bytearray(b'ab')\nf(b)\nassert b[0] == 7", 1.0),
        # A row of a table is the same row afterwards.
        (
            "def f(g):\n    for row in g: row.append(0)",
            "g = [[1], [2]]\nrow = g[1]\nf(g)\nassert row == [2, 0] and g[1] is row",
            1.0,
        ),
        (
            "class Solution:\n    def f(self, a): a.sort()",
            "a = [2, 1]\nf(a)\nassert a == [1, 2]",
            1.0,
        ),
        # What returns a value gets copies: it cannot make the expected value fit its own.
        ("def f(x):\n    x.clear()\n    return []", "x = [2, 1]\nassert f(x) == sorted(x)", 0.0),
        ("def f(x):\n    x[0] = 9\n    return 9", "x = [2, 1]\nassert f(x) == x[0]", 0.0),
    ],
)
def test_arguments_changed_in_place(solution, tests, score):
    assert code_score(solution, tests) == score


def test_what_goes_back_must_be_plain():
    tests = "a = [1]\nf(a)\nassert a == [1]"
    assert code_score("def f(a): a[0] = object()", tests) == 0.0


@pytest.mark.parametrize("ending", ["sys.exit(240)", "os._exit(241)", "sys.exit(1)"])
def test_an_exit_code_says_nothing_of_limits(ending):
    assert run_code(f"import os, sys\n{ending}").status == "error"


def test_a_program_out_of_memory_was_killed():
    assert run_code("x = bytearray(2**33)").status == "killed"
    forked = "import os\nif os.fork() == 0:\n    x = bytearray(2**33)\nos.wait()"
    assert run_code(forked).status == "ok"
