"""``nbkit.check`` as a reader calls it."""

import importlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor

import nbkit
from bookkit.exercises.bench import Bench
from bookkit.exercises.progress import note_attempt
from bookkit.exercises.registry import UnknownExercise, sections_of_chapter
from bookkit.exercises.verdict import Block, CheckResult, as_html

MASK = "reinforce.mask.1"
check_module = importlib.import_module("bookkit.exercises.check")


def right(ids: Tensor, eos_id: int) -> tuple[Tensor, Tensor]:
    is_eos = ids == eos_id
    return is_eos.cumsum(1) - is_eos.long() == 0, ~is_eos.any(1)


def wrong(ids: Tensor, eos_id: int) -> tuple[Tensor, Tensor]:
    is_eos = ids == eos_id
    return is_eos.cumsum(1) == 0, ~is_eos.any(1)


def stub(ids: Tensor, eos_id: int) -> tuple[Tensor, Tensor]:
    raise NotImplementedError


def states(path: Path) -> dict[str, bool]:
    kept = json.loads(path.read_text())["exercises"]
    return {name: record["last_passed"] for name, record in kept.items()}


def test_verdict_is_printed_and_returned(capsys: pytest.CaptureFixture[str]) -> None:
    result = nbkit.check(MASK, right)
    assert result.passed
    assert result.exercise_id == MASK
    assert result.seconds > 0
    assert capsys.readouterr().out == result.message + "\n"


def test_the_mistake_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    result = nbkit.check(MASK, wrong)
    assert not result.passed
    assert "your mask is shifted by one: the end-of-sequence token itself must count" in (
        result.message.replace("Your", "your")
    )


def test_a_pass_says_how_much_is_done_and_what_comes_next() -> None:
    said = nbkit.check(MASK, right).message
    assert "1 of 9 done in chapter 11; next: " in said.splitlines()[-1]
    assert "`reinforce." in said and said.endswith(" minutes.")
    assert "done in chapter" not in nbkit.check(MASK, wrong).message


def test_the_last_pass_of_a_chapter_says_so_and_the_next_skips_what_is_done() -> None:
    ids = [section.id for section in sections_of_chapter(11)]
    for name in ids:
        if name not in (MASK, ids[-1]):
            note_attempt(name, True)
    assert f"8 of 9 done in chapter 11; next: {sections_of_chapter(11)[-1].title}" in (
        nbkit.check(MASK, right).message
    )
    note_attempt(ids[-1], True)
    assert "9 of 9 done in chapter 11: all of it." in nbkit.check(MASK, right).message


def test_the_time_counts_from_the_call_on(monkeypatch: pytest.MonkeyPatch) -> None:
    real = check_module.Bench

    def slow(*args: object) -> Bench:
        time.sleep(0.3)
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(check_module, "Bench", slow)
    result = nbkit.check(MASK, right)
    assert result.seconds > 0.3
    assert f", {result.seconds:.1f} s" in result.message


def test_cases_are_fresh_unless_a_seed_is_given() -> None:
    assert len({nbkit.check(MASK, right).seed for _ in range(5)}) > 1
    one, other = nbkit.check(MASK, wrong, seed=7), nbkit.check(MASK, wrong, seed=7)
    assert one.message == other.message
    assert "seed=7" in one.message


@pytest.mark.parametrize("value", ["1", "yes"])
def test_strict_raises(monkeypatch: pytest.MonkeyPatch, value: str, own_progress: Path) -> None:
    monkeypatch.setenv("NBKIT_STRICT", value)
    assert nbkit.check(MASK, right).passed
    with pytest.raises(nbkit.CheckFailed, match="shifted by one") as caught:
        nbkit.check(MASK, wrong)
    assert not caught.value.result.passed
    with pytest.raises(nbkit.CheckFailed, match="not implemented yet"):
        nbkit.check(MASK, stub)
    assert not own_progress.exists(), "a strict run is the maintainer's, not the learner's"


def test_zero_is_not_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBKIT_STRICT", "0")
    assert not nbkit.check(MASK, wrong).passed


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("reinforce.maks.1", "did you mean 'reinforce.mask.1'"),
        ("zebra", "`nbkit progress` lists all ids"),
        ("", "`nbkit progress` lists all ids"),
    ],
)
def test_unknown_id(name: str, words: str) -> None:
    with pytest.raises(UnknownExercise, match=f"there is no exercise '{name}'") as caught:
        nbkit.check(name, right)
    assert isinstance(caught.value, ValueError)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_arguments_that_are_no_function() -> None:
    with pytest.raises(TypeError, match="needs the function itself, not its result"):
        nbkit.check(MASK, right(torch.tensor([[1, 2]]), 2))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the exercise id comes first"):
        nbkit.check(right, MASK)  # type: ignore[arg-type]


def test_attempts_are_noted(own_progress: Path) -> None:
    nbkit.check(MASK, stub)
    assert not own_progress.exists(), "an untouched stub is no attempt"
    nbkit.check(MASK, wrong)
    assert states(own_progress) == {MASK: False}
    nbkit.check(MASK, right)
    assert states(own_progress) == {MASK: True}


def test_html_is_escaped_and_complete() -> None:
    text = as_html("failed", "a <b> & `x<1>`", [Block("say `y`"), Block("<script>", is_code=True)])
    assert "<code>x&lt;1&gt;</code>" in text
    assert "<script>" not in text
    assert "a &lt;b&gt; &amp;" in text
    assert "<code>y</code>" in text


NOTEBOOK_CELLS = """
import nbkit, torch
def f(ids, eos_id):
    raise NotImplementedError
result = nbkit.check("reinforce.mask.1", f)
"""


@pytest.mark.slow
def test_outputs_in_a_notebook(own_progress: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    cells = [NOTEBOOK_CELLS, 'nbkit.check("reinforce.mask.1", f)', "result", "result.passed"]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in cells]
    )
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = [cell.outputs for cell in notebook.cells]
    for shown in outputs[:3]:
        assert len(shown) == 1, "the verdict stands once, not twice"
        assert shown[0].output_type == "display_data"
        assert shown[0].data["text/plain"].startswith("○ reinforce.mask.1: not implemented yet")
        assert "nbkit-check-open" in shown[0].data["text/html"]
        assert "Begin at line 3, in f" in shown[0].data["text/plain"]
    assert outputs[3][0].data["text/plain"] == "False"


def test_result_is_true_exactly_if_passed() -> None:
    assert CheckResult(True, "", "a", 0.0, 1)
    assert not CheckResult(False, "", "a", 0.0, 1)


@pytest.mark.slow
def test_importing_nbkit_does_not_import_torch() -> None:
    code = "import sys, nbkit; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
