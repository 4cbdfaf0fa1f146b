"""`nbkit.record`: what it accepts, what it stores, and how a fresh run is compared."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nbkit
from bookkit.authoring.record import (
    RECORD_MIME,
    RecordMismatch,
    compare,
    displayed,
    stored_records,
)
from tests.authoring.book import Book, code


def store(path: Path, *entries: dict) -> None:
    outputs = [{"output_type": "display_data", "data": {RECORD_MIME: entry}} for entry in entries]
    path.write_text(json.dumps({"cells": [{"outputs": outputs}]}))


@pytest.fixture
def compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    page = tmp_path / "page.ipynb"
    store(page, {"name": "rate", "value": 0.9, "tol": 0.05})
    monkeypatch.setenv("NBKIT_PAGE", str(page))
    monkeypatch.setenv("NBKIT_RECORD", "compare")
    return page


def test_in_a_readers_session_it_only_displays(capsys, monkeypatch):
    monkeypatch.delenv("NBKIT_RECORD", raising=False)
    nbkit.record("rate", 0.9, 0.05)
    assert capsys.readouterr().out == "rate: 0.9 (tolerance 0.05)\n"


@pytest.mark.parametrize("value", [0.9, 0.86, 0.949])
def test_values_within_the_stored_tolerance_agree(compared, value):
    nbkit.record("rate", value, 0.05)


@pytest.mark.parametrize("value", [0.84, 0.96, -0.9])
def test_a_value_outside_is_a_mismatch_that_names_both(compared, value):
    with pytest.raises(RecordMismatch, match=rf"'rate': {value} now, 0.9 stored in page.ipynb"):
        nbkit.record("rate", value, 0.05)


def test_a_figure_that_is_not_stored_is_a_mismatch(compared):
    with pytest.raises(RecordMismatch, match=r"page\.ipynb stores no figure of this name"):
        nbkit.record("other", 0.9, 0.05)


def test_a_missing_page_is_a_mismatch(compared):
    compared.unlink()
    with pytest.raises(RecordMismatch, match="does not exist"):
        nbkit.record("rate", 0.9, 0.05)


def test_comparing_without_a_page_is_a_mismatch(compared, monkeypatch):
    monkeypatch.delenv("NBKIT_PAGE")
    with pytest.raises(RecordMismatch, match="NBKIT_PAGE is not set"):
        nbkit.record("rate", 0.9, 0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", 1.0, 0.1), "needs a name"),
        (("x", math.nan, 0.1), "value must be finite"),
        (("x", math.inf, 0.1), "value must be finite"),
        (("x", "much", 0.1), "value must be one number; got str"),
        (("x", 1.0, -0.1), "tol must be a finite number of at least 0"),
        (("x", 1.0, math.nan), "tol must be a finite number of at least 0"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        nbkit.record(*arguments)


def test_arrays_of_one_element_count_as_numbers_and_others_do_not(compared):
    numpy = pytest.importorskip("numpy")
    nbkit.record("rate", numpy.float64(0.9), 0.05)
    nbkit.record("rate", numpy.array(0.9), 0.05)
    with pytest.raises(ValueError, match=r"value must be one number; got shape \(2,\)"):
        nbkit.record("rate", numpy.ones(2), 0.05)


def test_a_name_recorded_twice_is_ambiguous(tmp_path):
    entry = {"name": "rate", "value": 0.9, "tol": 0.05}
    store(tmp_path / "page.ipynb", entry, entry)
    with pytest.raises(RecordMismatch, match="stands twice"):
        stored_records(json.loads((tmp_path / "page.ipynb").read_text()))


@pytest.mark.slow
def test_execution_stores_the_figure_and_names_one_that_moved(book: Book):
    body = code("import sys\nsys.path.append('..')\nfrom small_record import record\nVALUE")
    source = Path(nbkit.record.__code__.co_filename).read_text()
    book.write("small_record.py", source)
    page = "notebooks/02_record.md"
    book.page(page, body.replace("VALUE", "record('rate', 0.5, 0.1)"))
    book.nbkit("execute", page)
    [entry] = stored_records(book.notebook("notebooks/02_record.ipynb")).values()
    assert entry == {"name": "rate", "value": 0.5, "tol": 0.1}
    book.page(page, body.replace("VALUE", "record('rate', 0.8, 0.1)"))
    output = book.nbkit("execute", page)
    assert "key figure 'rate' moved from 0.5 to 0.8 (tolerance 0.1)" in output


@pytest.mark.parametrize(
    ("range_", "shown"),
    [
        ([0.6123, 1.5987], "0.61 to 1.6"),
        ([-0.05, 0.05], "-0.05 to 0.05"),
        ([812.3, 955.1], "810 to 960"),
        ([0.91234, 0.91236], "0.91234 to 0.91236"),
        ([1e-7, 3e-7], "1e-07 to 3e-07"),
    ],
)
def test_the_range_over_the_draws_is_displayed(range_, shown):
    entry = {"name": "rate", "value": range_[0], "tol": 2.1, "range": range_, "draws": 5}
    text = displayed(entry)
    assert text == f"rate: {range_[0]:.6g} ({shown} on five roundings; tolerance 2.1)"


@given(
    low=st.floats(-1e6, 1e6).map(lambda x: round(x, 6)),
    width=st.floats(1e-6, 1e6),
)
def test_the_displayed_range_holds_the_range_and_is_hardly_wider(low, width):
    high = low + width
    text = displayed({"name": "x", "value": low, "tol": 1.0, "range": [low, high], "draws": 12})
    shown = text.partition(" (")[2].partition(" on 12 roundings")[0].split(" to ")
    below, above = map(float, shown)
    assert below - 1e-9 * abs(low) <= low and high <= above + 1e-9 * abs(high)
    assert above - below <= 1.25 * (high - low) + 1e-9 * abs(low)


def test_a_range_changes_no_comparison(compared):
    stored = {"rate": {"name": "rate", "value": 0.9, "tol": 0.05, "range": [0.1, 1], "draws": 5}}
    compare({"name": "rate", "value": 0.93, "tol": 0.05}, stored, page="page.ipynb")
    with pytest.raises(RecordMismatch):
        compare({"name": "rate", "value": 0.96, "tol": 0.05}, stored, page="page.ipynb")
