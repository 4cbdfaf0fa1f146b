"""How assertions are measured: their slack, what stays as it was, and where they still raise."""

import ast
import os
import sys
from typing import Any

import pytest

from bookkit.authoring.hooks.asserts import Rewriter
from bookkit.authoring.hooks.slack import Recorder


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder(lambda: 3, lambda: True)
    monkeypatch.setattr(sys, "_nbkit_asserts", made, raising=False)
    return made


def run(recorder: Recorder, source: str, **names: Any) -> dict[str, Any]:
    """Run a cell's source, rewritten; its names afterwards."""
    tree = ast.fix_missing_locations(Rewriter(recorder.name).visit(ast.parse(source)))
    exec(compile(tree, "<cell>", "exec"), names)
    return names


def only_note(recorder: Recorder) -> tuple[Any, bool]:
    [note] = recorder.notes.values()
    return note["slack"], note["holds"]


@pytest.mark.parametrize(
    ("test", "slack", "holds"),
    [
        ("2 < 5", 3, True),
        ("5 < 2", -3, False),
        ("2 >= 2", 0, True),
        ("7 > 2", 5, True),
        ("1 < 2 <= 5", 1, True),
        ("1 < 9 <= 5", -4, False),
        ("4 < 2 <= 5", -2, False),
        ("not 5 < 2", 3, True),
        ("3 < 1 or 8 > 2", 6, True),
        ("not (3 < 1 or 8 < 2)", 2, True),
        ("all(x < 10 for x in [1, 7, 4])", 3, True),
        ("all([x < 10 for x in [1, 17, 4]])", -7, False),
        ("any(x > 5 for x in [1, 7, 9])", 4, True),
        ("not any(x > 5 for x in [1, 3])", 2, True),
        ("all(0 < x < 10 for x in [1, 7])", 1, True),
        ("all(any(x > y for y in [0, 2]) for x in [3, 5])", 3, True),
        ("all(x < 10 for x in [])", None, True),
        ("float('nan') < 1", None, False),
        ("all(x < 1 for x in [0.0, float('nan')])", None, False),
        ("1 < float('inf')", None, True),
        ("'a' < 'b'", None, True),
        ("{1} < {1, 2}", None, True),
        ("2 == 2", None, True),
        ("2 in [2]", None, True),
        ("1 < 2 == 2", 1, True),
        ("len([1, 2])", None, True),
        ("5 < 2 or True", None, True),
        ("(x := 3) < 5", None, True),
    ],
)
def test_the_slack_of_a_test(recorder, test, slack, holds):
    run(recorder, f"assert {test}, 'message'")
    assert only_note(recorder) == (slack, holds)
    assert bool(eval(test)) == holds


@pytest.mark.parametrize(
    ("test", "slack", "holds"),
    [
        ("(t < 10).all()", 3, True),
        ("(t > 5).any()", 2, True),
        ("not (t > 9).any()", 2, True),
        ("torch.all(t < 5)", -2, False),
        ("t[0] < 3", 2, True),
        ("t.sum() < 100 and True", 88, True),
        ("((t < 10) & (t > 0)).all()", None, True),
        ("(t < torch.tensor([2, 8, 5])).all()", 1, True),
        ("(t / t.new_zeros(3) < 1).all()", None, False),
        ("(n < 10).all()", 3, True),
        ("np.all(n > 0)", 1, True),
        ("n[1] > 5", 2, True),
        ("(t == t).all()", None, True),
        ("(t > t[:0].new_zeros(1)).all()", 1, True),
    ],
)
def test_the_smallest_element_of_a_tensor_counts(recorder, test, slack, holds):
    numpy, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    names = {"t": torch.tensor([1.0, 7, 4], requires_grad=True), "n": numpy.array([1, 7, 4])}
    run(recorder, f"assert {test}", **names, torch=torch, np=numpy)
    notes = list(recorder.notes.values())
    assert (notes[0]["slack"], notes[0]["holds"]) == (slack, holds)


def test_the_parts_of_a_conjunction_are_two_assertions(recorder):
    run(recorder, "x = None\nassert 1 < 3 and x is not None and x > 3")
    notes = [(note["text"], note["slack"], note["holds"]) for note in recorder.notes.values()]
    assert notes == [("1 < 3", 2, True), ("x is not None", None, False)]


def test_the_worst_of_many_runs_is_kept(recorder):
    run(recorder, "for x in [1, 8, 12, 3]:\n    assert x < 10")
    assert only_note(recorder) == (-2, False)


def test_a_failing_assertion_is_noted_and_the_cell_goes_on(recorder):
    names = run(recorder, "assert 1 > 2, 1 / 0\nafter = True")
    assert names["after"]
    [note] = recorder.notes.values()
    assert note == {"cell": 3, "text": "1 > 2", "slack": -1, "holds": False}


def test_two_alike_are_told_apart(recorder):
    run(recorder, "x = 1\nassert x < 3\nx = 2\nassert x < 3")
    assert [note["text"] for note in recorder.notes.values()] == ["x < 3", "x < 3 (2)"]


@pytest.mark.parametrize(
    "block",
    [
        "try:\n    assert 1 > 2\nexcept AssertionError:\n    caught = True",
        "try:\n    check(1)\nexcept Exception:\n    caught = True",
        "try:\n    check(1)\nexcept (OSError, AssertionError):\n    caught = True",
        "try:\n    check(1)\nexcept:\n    caught = True",
        "with pytest.raises(AssertionError):\n    check(1)\ncaught = True",
        "with contextlib.suppress(AssertionError):\n    check(1)\n    1 / 0\ncaught = True",
    ],
)
def test_where_it_is_caught_an_assertion_still_raises(recorder, block):
    source = f"import contextlib\n\ndef check(x):\n    assert x > 2\n\n{block}"
    assert run(recorder, source, pytest=pytest)["caught"]
    assert not recorder.notes


def test_a_try_that_does_not_catch_it_changes_nothing(recorder):
    run(recorder, "try:\n    assert 1 > 2\nexcept OSError:\n    pass\nfinally:\n    x = 1")
    assert only_note(recorder) == (-1, False)


def test_in_a_child_process_an_assertion_still_raises(recorder):
    recorder.process = os.getpid() + 1
    with pytest.raises(AssertionError, match="the message"):
        run(recorder, "assert 1 > 2, 'the message'")
    assert not recorder.notes


def test_each_side_is_evaluated_once_and_none_too_many(recorder):
    calls = []

    def f(x: int) -> int:
        calls.append(x)
        return x

    run(recorder, "assert f(1) < f(2) < f(3)\nassert f(9) < f(4) < f(5)", f=f)
    assert calls == [1, 2, 3, 9, 4]


def test_names_of_functions_and_classes_are_found(recorder):
    source = """
class Held:
    limit = 3
    assert limit < 5

    def check(self, x):
        bound = 7
        def inner():
            assert all(x < bound and y > 0 for y in [1, 2])
        inner()
        assert x < self.limit

Held().check(1)
"""
    run(recorder, source)
    slacks = {note["text"]: note["slack"] for note in recorder.notes.values()}
    assert slacks == {
        "limit < 5": None,
        "all((x < bound and y > 0 for y in [1, 2]))": 1,
        "x < self.limit": 2,
    }


def test_errors_other_than_the_assertion_go_through(recorder):
    with pytest.raises(ZeroDivisionError):
        run(recorder, "assert 1 / 0 < 2")
    with pytest.raises(TypeError):
        run(recorder, "assert all(x < 2 for x in [1, 'a'])")


def test_errors_past_the_deciding_element_are_none_of_the_page(recorder):
    run(recorder, "assert any(x < 2 for x in [1, 'a'])")
    assert only_note(recorder) == (1, True)


def test_a_generator_with_a_try_leaves_no_guard_standing(recorder):
    source = """
def steps():
    try:
        yield 1
        yield 2
    except Exception:
        raise

g = steps()
next(g)
assert 1 > 2
"""
    run(recorder, source)
    assert only_note(recorder) == (-1, False)


def test_a_rewriting_that_was_dropped_is_an_error():
    with pytest.raises(RuntimeError, match="the rewriting of assertions failed"):
        Recorder(lambda: 1, lambda: False).report_json()
