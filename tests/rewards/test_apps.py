"""Problems in the form of APPS: the loader, broken rows by number, and the score."""

import json

import pytest

from nbkit.rewards.apps import Problem, load_apps, problem_score, same_output

STDIN = {
    "id": 0,
    "question": "Read two numbers and print their sum.",
    "solutions": json.dumps(["print(sum(map(int, input().split())))"]),
    "input_output": json.dumps({"inputs": ["1 2\n", "10 -4\n"], "outputs": ["3\n", "6\n"]}),
    "difficulty": "introductory",
    "starter_code": "",
}
FUNCTION = {
    "question": "Return the sum.",
    "input_output": {"fn_name": "add", "inputs": [[1, 2], [[1], [2]]], "outputs": [3, [[1, 2]]]},
    "starter_code": "def add(a, b):",
}


def write(tmp_path, *rows):
    path = tmp_path / "problems.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def test_both_forms_are_read(tmp_path):
    loaded = load_apps(write(tmp_path, STDIN, "", FUNCTION))
    first, second = loaded.problems
    assert loaded.broken == {}
    assert (first.inputs, first.outputs, first.function) == (
        ("1 2\n", "10 -4\n"),
        ("3\n", "6\n"),
        None,
    )
    assert (second.function, second.row, second.starter_code) == ("add", 3, "def add(a, b):")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("{not json", "Expecting"),
        ("[1]", "not an object"),
        (STDIN | {"question": " "}, "no question"),
        (STDIN | {"input_output": ""}, "no input_output"),
        (STDIN | {"input_output": "{"}, "input_output is no JSON"),
        (STDIN | {"input_output": {"inputs": ["1"]}}, "must be lists"),
        (
            STDIN | {"input_output": {"inputs": ["1", "2"], "outputs": ["1"]}},
            "2 inputs and 1 outputs",
        ),
        (STDIN | {"input_output": {"inputs": [], "outputs": []}}, "0 inputs"),
        (STDIN | {"input_output": {"inputs": [5], "outputs": ["1"]}}, "is no text: 5"),
        (STDIN | {"input_output": {"fn_name": "a b", "inputs": [[1]], "outputs": [1]}}, "fn_name"),
        (
            STDIN | {"input_output": {"fn_name": "f", "inputs": ["x"], "outputs": [1]}},
            "lists of arg",
        ),
    ],
)
def test_broken_rows_are_named_by_number(tmp_path, row, reason):
    path = write(tmp_path, STDIN, row, FUNCTION)
    with pytest.raises(ValueError, match=f"row 2: .*{reason}"):
        load_apps(path)
    loaded = load_apps(path, strict=False)
    assert [p.row for p in loaded.problems] == [1, 3]
    assert list(loaded.broken) == [2]
    assert reason in loaded.broken[2]


def test_a_line_that_cannot_be_read_costs_one_row(tmp_path):
    path = tmp_path / "rows.jsonl"
    good = json.dumps(STDIN).encode()
    lines = [b"9" * 5000, b"[" * 100_000 + b"]" * 100_000, b'"\xff"', good]
    path.write_bytes(b"\n".join([good, *lines]))
    loaded = load_apps(path, strict=False)
    assert [problem.row for problem in loaded.problems] == [1, 5]
    assert list(loaded.broken) == [2, 3, 4]
    for row, words in {2: "4300 digits", 3: "nested too deep", 4: "no UTF-8"}.items():
        assert words in loaded.broken[row]


def test_nested_tests_that_cannot_be_read_cost_one_row(tmp_path):
    deep = STDIN | {"input_output": "[" * 100_000 + "]" * 100_000}
    loaded = load_apps(write(tmp_path, deep, STDIN), strict=False)
    assert list(loaded.broken) == [1] and "nested too deep" in loaded.broken[1]


def test_a_line_ends_at_a_line_feed_only(tmp_path):
    odd = STDIN | {"question": "One\u2028two\u0085three"}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(odd, ensure_ascii=False) + "\n", encoding="utf-8")
    assert load_apps(path).problems[0].question == odd["question"]
    assert not same_output("1\u20282", "1\n2")


def test_empty_file(tmp_path):
    with pytest.raises(ValueError, match="no rows"):
        load_apps(write(tmp_path, ""))


def test_outputs_agree_line_by_line():
    assert same_output("1 2 \n3\n\n", "1 2\n3")
    assert not same_output("1 2\n3", "1 2 3")
    assert not same_output("12", "1 2")
    assert not same_output("3.0", "3")
    assert not same_output("", "0")


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.slow
def test_scores(tmp_path):
    stdin, function = load_apps(write(tmp_path, STDIN, FUNCTION)).problems
    for solution, share in [
        (json.loads(STDIN["solutions"])[0], 1.0),
        ("print(3)", 0.5),
        ("import sys; print(3); print(6); sys.exit(0)", 0.0),
        ("print(sum(map(int, input().split()))); raise SystemExit(1)", 0.0),
    ]:
        assert problem_score(solution, stdin, partial=True) == share, solution
        assert problem_score(solution, stdin) == float(share == 1.0), solution
    assert problem_score("while True: pass", stdin, timeout_s=0.5) == 0.0
    for solution, share in [
        ("def add(a, b): return a + b", 1.0),
        ("class Solution:\n    def add(self, a, b): return a + b", 1.0),
        ("def add(a, b): return 3", 0.5),
        ("print(3)", 0.0),
    ]:
        assert problem_score(solution, function, partial=True) == share, solution
        assert problem_score(solution, function) == float(share == 1.0), solution


@pytest.mark.usefixtures("sandboxed")
def test_tuples_agree_with_lists():
    """JSON has no tuples, so a result that is one agrees with the list of the file."""
    problem = Problem("q", ([1],), ([1, 2],), "f")
    assert problem_score("def f(x): return (x, 2)", problem) == 1.0
    assert problem_score("def f(x): return (2, x)", problem) == 0.0
