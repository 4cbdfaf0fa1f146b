"""`nbkit spread`: a page under several roundings, what is stored of it, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nbkit
from bookkit.authoring import spread as spread_module
from bookkit.authoring.draws import DRAWS, HOOKS, draw_environment, draws_named
from bookkit.authoring.measured import rounded, spread, spread_findings, stored_draws, with_ranges
from bookkit.authoring.page import Cell, Content, content_of_notebook
from bookkit.authoring.record import RECORD_MIME, displayed
from bookkit.authoring.stamp import outputs_digest
from nbkit.errors import UserError
from tests.authoring.book import Book, code, one_sentence

PAGE = "notebooks/02_spread.md"
NOTEBOOK = "notebooks/02_spread.ipynb"
NAMES = list(DRAWS)


def test_the_environment_of_a_draw_has_the_hooks_first_and_its_variables():
    given_ = {"PYTHONPATH": "/here", "HOME": "/home"}
    assert draw_environment(given_, "as is") == given_ | {"PYTHONPATH": f"{HOOKS}:/here"}
    both = draw_environment({}, "both")
    assert both["ATEN_CPU_CAPABILITY"] == "default" and both["MKL_CBWR"] == "COMPATIBLE"
    assert both["PYTHONPATH"] == str(HOOKS)


def test_draws_are_named_in_the_order_of_the_table():
    assert draws_named("MKL, as-is") == ["as is", "MKL"]
    with pytest.raises(UserError, match="there is no draw 'avx'; the draws are as-is, ATEN"):
        draws_named("avx")
    with pytest.raises(UserError, match="no draw is named"):
        draws_named(" ,")


def test_numbers_are_rounded_no_further_than_their_spread_allows():
    assert rounded([1.23456789, 2.0, None]) == [1.23457, 2.0, None]
    assert rounded([0.123456789, 0.123456789]) == [0.123457, 0.123457]
    close = rounded([0.12345678912, 0.12345678999])
    assert spread(close) == pytest.approx(0.87e-9, rel=0.01)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=5))
def test_rounding_keeps_the_spread_and_the_values(values):
    found = rounded(values)
    assert spread(found) == pytest.approx(spread(values), rel=0.01, abs=0)
    assert found == pytest.approx(values, rel=1e-5, abs=0)


def notebook_with(*entries: dict[str, Any], source: str = "x = 1") -> dict[str, Any]:
    outputs = [
        {
            "output_type": "display_data",
            "metadata": {},
            "data": {RECORD_MIME: dict(entry), "text/plain": displayed(entry)},
        }
        for entry in entries
    ]
    cell = {"cell_type": "code", "source": source, "metadata": {}, "outputs": outputs}
    return {"cells": [cell], "metadata": {}, "nbformat": 4}


CONTENT = Content({}, {}, (Cell("code", "x = 1"),))
RATE = {"name": "rate", "value": 1.0, "tol": 0.5}


def draws_with(
    records: dict[str, list[float]] | None = None, *asserts: dict[str, Any], code: str = ""
) -> dict[str, Any]:
    return {
        "code": code or CONTENT.code_digest,
        "draws": NAMES,
        "records": records or {},
        "asserts": list(asserts),
    }


def assertion(slack: list[float | None] | None, holds: list[bool | None]) -> dict[str, Any]:
    return {"cell": 4, "text": "x < 3", "slack": slack, "holds": holds}


def findings(draws: dict[str, Any] | None, *entries: dict[str, Any]) -> list[str]:
    notebook = notebook_with(*entries)
    if draws is not None:
        notebook["metadata"] = {"nbkit": {"draws": draws}}
    return [problem for problem, _ in spread_findings("notebooks/02.md", notebook, CONTENT)]


def test_a_page_must_have_been_measured_with_its_code():
    assert findings(None) == ["was never measured under several roundings"]
    [problem] = findings(draws_with(code="other"))
    assert problem == "was measured under several roundings with other code"
    assert findings(draws_with()) == []


@pytest.mark.parametrize(
    ("values", "refused"),
    [
        ([1.0, 1.0, 1.0, 1.0, 1.0], False),
        ([1.0, 1.25, 1.1, 1.0, 1.0], False),
        ([1.0, 1.2501, 1.1, 1.0, 1.0], True),
        ([1.0, 0.7, 1.1, 1.0, 1.0], True),
    ],
)
def test_a_tolerance_is_at_least_twice_the_spread(values, refused):
    found = findings(draws_with({"rate": values}), RATE)
    assert [("below twice its spread" in problem) for problem in found] == [True] * refused


def test_a_tolerance_of_nothing_stands_only_where_nothing_moves():
    exact = RATE | {"tol": 0.0}
    assert findings(draws_with({"rate": [1.0] * 5}), exact) == []
    assert len(findings(draws_with({"rate": [1.0, 1.0, 1.0, 1.0, 1.000000000001]}), exact)) == 1


def test_a_figure_that_was_not_measured_is_named():
    [problem] = findings(draws_with({"other": [1.0] * 5}), RATE)
    assert problem == "record 'rate' was not measured under several roundings"


@pytest.mark.parametrize(
    ("slack", "holds", "problem"),
    [
        ([2, 2, 2, 2, 2], [True] * 5, None),
        ([0, 0, 0, 0, 0], [True] * 5, None),
        (None, [True] * 5, None),
        ([1, 1.5, 2, 3, 2.5], [True] * 5, None),
        ([0.9, 1.5, 2, 3, 2.5], [True] * 5, "has no margin: its slack is 0.9 at the least"),
        ([0, 0, 0, 0.1, 0], [True] * 5, "has no margin"),
        ([5, 5, -1, 5, -2], [True, True, False, True, False], "fails on the draws MKL, weights"),
        (None, [True, True, True, False, True], "fails on the draws both"),
        ([2, None, 2, 2, 2], [True, None, True, True, True], None),
    ],
)
def test_an_assertion_holds_on_every_draw_with_a_margin(slack, holds, problem):
    found = findings(draws_with(None, assertion(slack, holds)))
    assert len(found) == (problem is not None)
    for text in found:
        assert problem in text and text.startswith("code cell 4: `assert x < 3`")


def test_the_range_is_shown_and_goes_when_the_code_has_changed():
    draws = draws_with({"rate": [1.0, 0.6, 1.6, 1.2, 1.1]})
    notebook = notebook_with(RATE)
    plain = outputs_digest(notebook)
    with_ranges(notebook, draws)
    [output] = notebook["cells"][0]["outputs"]
    expected = "rate: 1 (0.6 to 1.6 on five roundings; tolerance 0.5)"
    assert output["data"]["text/plain"] == expected
    assert output["data"][RECORD_MIME] == RATE | {"range": [0.6, 1.6], "draws": 5}
    with_ranges(notebook, draws)
    assert output["data"]["text/plain"] == expected
    with_ranges(notebook, draws | {"code": "other"})
    assert outputs_digest(notebook) == plain
    with_ranges(notebook, None)
    assert outputs_digest(notebook) == plain


def test_a_figure_that_does_not_move_shows_no_range():
    notebook = notebook_with(RATE)
    plain = outputs_digest(notebook)
    with_ranges(notebook, draws_with({"rate": [1.0, 1.0, 1.0 + 1e-9, 1.0, 1.0]}))
    assert outputs_digest(notebook) == plain


BODY = """
import os
import sys

sys.path.append("..")
from small_record import record

aten = "ATEN_CPU_CAPABILITY" in os.environ
mkl = "MKL_CBWR" in os.environ
record("rate", 1.0 + 0.2 * aten, tol=TOL)
"""
ASSERTS = """
assert 3 > 2 + aten - 0.5 * mkl
assert aten == aten and 1 < 2
try:
    assert aten > 5
except AssertionError:
    print("still raised")
"""


@pytest.fixture
def page(book: Book) -> Book:
    """A small book with a page whose figure moves by 0.2 and one of whose assertions fails."""
    book.write("small_record.py", Path(nbkit.record.__code__.co_filename).read_text())
    book.page(PAGE, code(BODY.replace("TOL", "0.5")) + "\nText.\n\n" + code(ASSERTS))
    return book


@pytest.mark.slow
def test_a_page_is_measured_stored_and_shown(page: Book):
    page.nbkit("execute", PAGE)
    before = page.notebook(NOTEBOOK)
    said = content_of_notebook(before, NOTEBOOK)
    output = page.nbkit("spread", PAGE, status=1)
    problem = "code cell 2: `assert 3 > 2 + aten - 0.5 * mkl` fails on the draws ATEN"
    assert problem in output
    notebook = page.notebook(NOTEBOOK)
    draws = stored_draws(notebook)
    assert draws is not None
    assert draws["draws"] == NAMES and draws["code"] == said.code_digest
    assert draws["records"] == {"rate": [1.0, 1.2, 1.0, 1.2, 1.0]}
    assert len(draws["processor_seconds"]) == 5 and min(draws["processor_seconds"]) >= 0
    assert [(one["cell"], one["text"], one["slack"]) for one in draws["asserts"]] == [
        (2, "3 > 2 + aten - 0.5 * mkl", [1.0, 0.0, 1.5, 0.5, 1.0]),
        (2, "aten == aten", None),
        (2, "1 < 2", [1.0] * 5),
    ]
    assert draws["asserts"][0]["holds"] == [True, False, True, True, True]
    texts = str(notebook["cells"])
    assert "rate: 1 (1 to 1.2 on five roundings; tolerance 0.5)" in texts
    assert content_of_notebook(notebook, NOTEBOOK) == said
    stamp = notebook["metadata"]["nbkit"]["stamp"]
    assert stamp["outputs"] == outputs_digest(notebook)
    assert problem in page.nbkit("stamp", "--check", status=1)
    # Execution keeps what was measured, and its outputs are those of the page's own run.
    page.nbkit("execute", "--all", PAGE)
    again = page.notebook(NOTEBOOK)
    assert again["cells"] == notebook["cells"] and stored_draws(again) == draws
    assert "still raised" in str(again["cells"])


@pytest.mark.slow
def test_a_tolerance_is_judged_and_a_page_that_holds_passes(page: Book):
    body = code(BODY.replace("TOL", "0.3"))
    page.page(PAGE, body)
    page.nbkit("execute", PAGE)
    output = page.nbkit("spread", PAGE, "--draws", "ATEN,as-is", status=1)
    assert "record 'rate': its tolerance 0.3 is below twice its spread (1 to 1.2)" in output
    assert "make it at least 0.4, and the prose true of the whole range" in output
    assert stored_draws(page.notebook(NOTEBOOK)) is None, "some draws only are not stored"
    page.page(PAGE, body.replace("0.3", "0.41"))
    page.nbkit("execute", PAGE)
    assert "was never measured" in page.nbkit("stamp", "--check", status=1)
    page.nbkit("spread", PAGE)
    assert PAGE not in page.nbkit("stamp")
    page.page(PAGE, body.replace("0.3", "0.42"))
    page.nbkit("execute", PAGE)
    assert "measured under several roundings with other code" in page.nbkit("stamp")
    assert "on five roundings" not in page.read(NOTEBOOK)


@pytest.mark.slow
def test_a_page_that_stops_on_a_draw_is_named_and_nothing_is_stored(page: Book):
    page.page(PAGE, code(BODY.replace("TOL", "0.5")) + "\nText.\n\n" + code("1 / (1 - mkl)"))
    page.nbkit("execute", PAGE)
    before = page.read(NOTEBOOK)
    output = page.nbkit("spread", PAGE, status=1)
    sentence = "code cell 2 (`1 / (1 - mkl)`) stops it: ZeroDivisionError: division by zero"
    assert f"{PAGE} (MKL): {sentence}" in output and f"{PAGE} (both): {sentence}" in output
    assert f"{PAGE} (ATEN): code" not in output
    assert page.read(NOTEBOOK) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "refused"), [("Text.", "More.", False), ("1.2", "1.1", True)]
)
def test_only_an_edit_of_code_while_it_ran_spoils_a_measurement(
    page: Book, monkeypatch: pytest.MonkeyPatch, old: str, new: str, refused: bool
):
    page.page(PAGE, code(BODY.replace("TOL", "0.5")) + "\nText.\n\n" + code("1.2"))
    page.nbkit("execute", PAGE)
    result = spread_module._result

    def edited(*given: Any) -> Any:
        page.write(PAGE, page.read(PAGE).replace(old, new))
        return result(*given)

    monkeypatch.setattr(spread_module, "_result", edited)
    output = page.nbkit("spread", PAGE, status=1 if refused else 0)
    assert (f"{PAGE} changed while it ran" in output) == refused
    assert (stored_draws(page.notebook(NOTEBOOK)) is None) == refused


@pytest.mark.slow
def test_edited_outputs_are_not_stamped_anew(page: Book):
    page.nbkit("execute", PAGE)
    text = page.read(NOTEBOOK).replace("still raised", "never raised")
    page.write(NOTEBOOK, text)
    output = page.nbkit("spread", PAGE, status=1)
    assert one_sentence(output).startswith(f"{NOTEBOOK}: its outputs were edited")
    assert page.read(NOTEBOOK) == text


def test_a_page_that_was_never_executed_is_not_measured(page: Book):
    output = page.nbkit("spread", PAGE, status=1)
    assert one_sentence(output) == f"{PAGE} has never been executed; run `nbkit execute {PAGE}`"


@pytest.mark.slow
def test_a_figure_that_is_recorded_on_some_draws_only_is_refused(page: Book):
    page.page(PAGE, code(BODY.replace("TOL", "0.5") + "if not aten:\n    record('x', 1, tol=0)"))
    output = page.nbkit("spread", PAGE, "--no-store", status=1)
    assert "record 'x' is missing on the draw ATEN" in output


SENT = """
import subprocess, sys
import cloudpickle

def holds(x):
    assert x < 2
    return x

call = "import sys, pickle; print(pickle.loads(sys.stdin.buffer.read())(int(sys.argv[1])))"
done = [
    subprocess.run(
        [sys.executable, "-c", call, x], input=cloudpickle.dumps(holds), capture_output=True
    )
    for x in "13"
]
assert done[0].stdout == b"1\\n"
assert "AssertionError" in str(done[1].stderr)
"""


@pytest.mark.slow
def test_a_function_that_is_sent_to_another_process_still_asserts_there(book: Book):
    book.page(PAGE, code(SENT))
    book.nbkit("execute", PAGE)
    book.nbkit("spread", PAGE)
    draws = stored_draws(book.notebook(NOTEBOOK))
    assert draws is not None
    assert [one["holds"] for one in draws["asserts"][-2:]] == [[True] * len(DRAWS)] * 2
