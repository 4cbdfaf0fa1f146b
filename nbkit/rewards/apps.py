"""Programming problems in the form of APPS (Hendrycks et al., 2021): questions, inputs, outputs.

A problem either reads stdin and prints, or names a function whose arguments and results are listed.
Expected outputs never enter the sandbox of a solution.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbkit.data.json_lines import json_value, numbered_lines
from nbkit.rewards.code import code_score
from nbkit.rewards.sandbox import run_code

TOLERANCE = 1e-6
_DECIMAL = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d{1,3})?|[+-]?\d+[eE][+-]?\d{1,3}")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?")


@dataclass(frozen=True)
class Problem:
    """One problem.

    Attributes:
        question: what the model is asked.
        inputs: of each test: a text for stdin, or the list of a function's arguments.
        outputs: of each test: the text that is to be printed, or the function's result.
        function: its name, or None for a problem of stdin and stdout.
        starter_code: what the solution begins with, or "".
        row: number of the row in the file, from 1.

    """

    question: str
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    function: str | None = None
    starter_code: str = ""
    row: int = 0


@dataclass(frozen=True)
class Loaded:
    """The problems of a file, and for each broken row its number (from 1) and what is wrong."""

    problems: tuple[Problem, ...]
    broken: Mapping[int, str]


def load_apps(path: Path | str, *, strict: bool = True) -> Loaded:
    """Read problems from JSON lines.

    Each row has ``question`` and ``input_output``, which is a JSON text (as APPS stores it) or an
    object, with lists ``inputs`` and ``outputs`` of one length and, for a function, ``fn_name``.

    Args:
        path: the file.
        strict: raise if a row is broken; otherwise leave it out and report it.

    Raises:
        ValueError: broken rows, all of them named by number; or no row at all.

    """
    problems, broken = [], {}
    for number, line in numbered_lines(path):
        try:
            problems.append(_problem(json_value(line), number))
        except ValueError as error:  # of the line as of the row
            broken[number] = str(error)
    if broken and strict:
        listed = "; ".join(f"row {number}: {reason}" for number, reason in broken.items())
        raise ValueError(f"{path}: {listed}")
    if not problems and not broken:
        raise ValueError(f"{path}: no rows")
    return Loaded(tuple(problems), broken)


def _problem(row: object, number: int) -> Problem:
    if not isinstance(row, dict):
        raise ValueError(f"not an object but {type(row).__name__}")
    question = row.get("question")
    if not isinstance(question, str) or not question.strip():
        raise ValueError("no question")
    pairs = row.get("input_output")
    if isinstance(pairs, str) and pairs.strip():
        try:
            pairs = json_value(pairs.encode("utf-8", "surrogatepass"))
        except ValueError as error:
            raise ValueError(f"input_output is no JSON: {error}") from error
    if not isinstance(pairs, dict):
        raise ValueError("no input_output")
    inputs, outputs = pairs.get("inputs"), pairs.get("outputs")
    if not isinstance(inputs, list) or not isinstance(outputs, list):
        raise ValueError("inputs and outputs must be lists")
    if len(inputs) != len(outputs) or not inputs:
        raise ValueError(f"{len(inputs)} inputs and {len(outputs)} outputs")
    function = pairs.get("fn_name")
    if function is not None and not (isinstance(function, str) and function.isidentifier()):
        raise ValueError(f"fn_name is no name: {function!r}")
    if function is None:
        inputs, outputs = [_text(item) for item in inputs], [_text(item) for item in outputs]
    elif not all(isinstance(item, list) for item in inputs):
        raise ValueError("the inputs of a function must be lists of arguments")
    starter = row.get("starter_code") or ""
    return Problem(question, tuple(inputs), tuple(outputs), function, str(starter), number)


def _text(item: object) -> str:
    """APPS gives stdin and stdout as a text or as a list of lines."""
    if isinstance(item, str):
        return item
    if isinstance(item, list) and all(isinstance(line, str) for line in item):
        return "\n".join(item)
    raise ValueError(f"stdin or stdout is no text: {str(item)[:40]}")


def problem_score(
    solution: str,
    problem: Problem,
    *,
    timeout_s: float = 5.0,
    partial: bool = False,
    allow_unprotected: bool = False,
) -> float:
    """Return 1.0 if a solution passes every test of a problem, else 0.0; or the share it passes.

    Args:
        solution: source of the program or of the function.
        problem: from ``load_apps``.
        timeout_s: seconds for each input (stdin), or for all calls together (a function).
        partial: the share of the tests passed. Without it the first failure ends the scoring.
        allow_unprotected: as in ``run_code``.

    """
    if problem.function is not None:
        return code_score(
            solution,
            _calls(problem),
            timeout_s=timeout_s,
            partial=partial,
            allow_unprotected=allow_unprotected,
        )
    passed = 0
    for given, expected in zip(problem.inputs, problem.outputs, strict=True):
        result = run_code(
            solution, stdin=given, timeout_s=timeout_s, allow_unprotected=allow_unprotected
        )
        right = result.status == "ok" and same_output(result.stdout, expected)
        if not right and not partial:
            return 0.0
        passed += right
    return passed / len(problem.inputs)


def same_output(printed: str, expected: str) -> bool:
    """Whether two outputs agree in every line, blanks at line ends and blank last lines aside.

    Where the expected output is a decimal, a number within 1e-6 of it (absolute, and relative above
    1) is the same: right programs round and print in many ways, and a judge of exact digits
    calls them wrong. Whole numbers and words are compared as they stand.
    """
    ours, theirs = _lines(printed), _lines(expected)
    if ours == theirs or len(ours) != len(theirs):
        return ours == theirs
    pairs = zip(ours, theirs, strict=True)
    return all(
        line == wanted or _same_words(line.split(), wanted.split()) for line, wanted in pairs
    )


def _same_words(ours: list[str], theirs: list[str]) -> bool:
    return len(ours) == len(theirs) and all(map(_same_word, ours, theirs))


def _same_word(word: str, wanted: str) -> bool:
    if word == wanted:
        return True
    if not (_DECIMAL.fullmatch(wanted) and _NUMBER.fullmatch(word)):
        return False
    value, other = float(word), float(wanted)
    return math.isfinite(value) and abs(value - other) <= TOLERANCE * max(1.0, abs(other))


def _lines(text: str) -> list[str]:
    return "\n".join(line.rstrip() for line in text.split("\n")).rstrip("\n").split("\n")


def _calls(problem: Problem) -> str:
    """The tests of a function as asserts. As in APPS the result may stand in a list of one."""
    lines = [
        "def plain(value):",
        "    return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value",
        "def close(value, wanted):",
        "    if isinstance(value, list) and isinstance(wanted, list):",
        "        return len(value) == len(wanted) and all(map(close, value, wanted))",
        "    if isinstance(wanted, float) and type(value) in (int, float):",
        f"        return abs(value - wanted) <= {TOLERANCE} * max(1.0, abs(wanted))",
        "    return value == wanted",
        "def same(value, wanted):",
        "    value = plain(value)",
        "    single = isinstance(wanted, list) and len(wanted) == 1 and close(value, wanted[0])",
        "    return close(value, wanted) or single",
    ]
    for given, expected in zip(problem.inputs, problem.outputs, strict=True):
        lines.append(f"assert same({problem.function}(*{given!r}), {expected!r})")
    return "\n".join(lines)
