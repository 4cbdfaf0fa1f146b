"""Heads of studies, and the command that keeps them true."""

import json
import math
import subprocess
from pathlib import Path

import pytest

from bookkit.authoring.draws import DRAWS
from bookkit.authoring.heads import (
    StudyMismatch,
    compare_head,
    proves_nothing,
    spread_of,
    tolerance_of,
    too_tight,
)
from tests.authoring.book import Book, one_sentence

# A study without the frame, as quick as Python: its figure moves by 0.01 under one rounding.
STUB = """import json, os, sys
from pathlib import Path

words = sys.argv[1:]
if words[0] == "--check":
    sys.exit(0)
if words[0] == "--figures":
    moved = 0.01 * ("MKL_CBWR" in os.environ)
    text = json.dumps({"head": {"loss 1": 2.0 + moved, "kl": -1.0}, "tolerances": {TOLERANCES}})
    Path(words[1]).write_text(text)
else:
    Path(words[words.index("--out") + 1]).write_text(json.dumps({"stamp": {}, "words": words}))
"""


def test_heads_agree_within_tolerance_or_say_where_they_do_not():
    stored, tolerances = {"base: loss 1": 1.0, "kl": 2.0}, {"loss": 0.1, "kl": 0.01}
    compare_head(stored, {"base: loss 1": 1.05, "kl": 2.005}, tolerances)
    with pytest.raises(StudyMismatch, match=r"1 of 2 figures moved; kl: 2\.05 now, 2 stored"):
        compare_head(stored, stored | {"kl": 2.05}, tolerances)
    with pytest.raises(StudyMismatch, match="nan now"):
        compare_head(stored, stored | {"kl": math.nan}, tolerances)
    with pytest.raises(StudyMismatch, match="'kl' stands on one side only"):
        compare_head(stored, {"base: loss 1": 1.0}, tolerances)
    with pytest.raises(KeyError, match="give 'loss' one"):
        compare_head(stored, stored, {"kl": 1.0})


def test_a_figure_has_its_own_tolerance_or_its_metric_s():
    tolerances = {"loss": 1.0, "base: loss 2": 2.0, "kl 1 nat": 3.0}
    assert tolerance_of("base: loss 1", tolerances) == 1.0
    assert tolerance_of("a: b: loss 12", tolerances) == 1.0
    assert tolerance_of("base: loss 2", tolerances) == 2.0
    assert tolerance_of("kl 1 nat", tolerances) == 3.0
    with pytest.raises(KeyError):
        tolerance_of("base: losses", tolerances)


def test_zeros_and_the_mean_must_not_pass():
    """The heads that were: constants, small shares with a wide tolerance, one wide figure."""
    assert proves_nothing({"a": 0.03, "b": 0.05}, {"a": 0.05, "b": 0.05}) == [
        "zeros",
        "its own mean",
    ]
    assert proves_nothing({"a": 0.6, "b": 0.6}, {"a": 0.1, "b": 0.1}) == ["its own mean"]
    assert proves_nothing({"a": -180.0}, {"a": 75.0}) == ["its own mean"]
    assert proves_nothing({"a": 1.0, "b": -1.0}, {"a": 0.1, "b": 0.1}) == []


def test_a_tolerance_covers_twice_the_spread():
    spread = spread_of([{"a": 1.0, "b": 2.0}, {"a": 1.5, "b": 2.0}, {"a": 1.2, "b": 2.0}])
    assert spread == {"a": 0.5, "b": 0.0}
    assert too_tight(spread, {"a": 0.99, "b": 0.0}) == ["a"]
    assert too_tight(spread, {"a": 1.0, "b": 0.0}) == []
    assert spread_of([{"a": 1.0}, {"a": math.nan}]) == {"a": math.inf}
    with pytest.raises(Exception, match="other names"):
        spread_of([{"a": 1.0}, {"b": 1.0}])


@pytest.fixture
def small(tmp_path: Path) -> Book:
    made = Book(tmp_path)
    made.write("pyproject.toml", '[project]\nname = "small"\nversion = "0"\n')
    made.write("nbkit/__init__.py", "")
    made.write("studies/results/.keep", "")
    write_study(made, '{"loss 1": 0.02, "kl": 0.1}')
    return made


def write_study(book: Book, tolerances: str) -> None:
    book.write("studies/curve.py", STUB.replace("{TOLERANCES}", tolerances))


def head(book: Book) -> dict:
    return json.loads(book.read("studies/heads/curve.json"))


def test_a_head_is_stored_with_a_stamp_of_its_own(small: Book):
    output = small.nbkit("study", "curve", "--head")
    assert "studies/heads/curve.json: written" in output
    stored = head(small)
    assert stored["head"] == {"loss 1": 2.0, "kl": -1.0} and "head_spread" not in stored
    stamp = stored["head_stamp"]
    assert stamp["commit"] and stamp["processor"] and stamp["tree"]
    assert stamp["packages"]["torch"] and stamp["config"]["code"]


def test_the_spread_over_the_roundings_is_stored_and_printed(small: Book):
    output = small.nbkit("study", "curve", "--draws")
    stored = head(small)
    assert stored["head_draws"] == list(DRAWS)
    assert stored["head_spread"] == {"loss 1": pytest.approx(0.01), "kl": 0.0}
    assert any("loss 1" in line and "0.01" in line for line in output.splitlines())
    # the spread stays when the head alone is made anew
    small.nbkit("study", "curve", "--head")
    assert head(small)["head_spread"] == stored["head_spread"]


def test_a_tolerance_below_twice_the_spread_is_refused(small: Book):
    write_study(small, '{"loss 1": 0.019, "kl": 0.1}')
    message = one_sentence(small.nbkit("study", "curve", "--draws", status=1))
    assert "the tolerance 0.019 of 'loss 1' is below twice its spread 0.01" in message


def test_a_head_that_proves_nothing_is_refused(small: Book):
    write_study(small, '{"loss 1": 2.0, "kl": 2.0}')
    message = one_sentence(small.nbkit("study", "curve", "--head", status=1))
    assert "its head proves nothing, zeros would pass" in message


def test_words_behind_the_name_go_to_the_study(small: Book):
    output = small.nbkit("study", "curve", "--jobs", "8", "--check-nothing")
    assert "studies/results/curve.json: written" in output and "--draws" in output
    words = json.loads(small.read("studies/results/curve.json"))["words"]
    assert words[2:] == ["--jobs", "8", "--check-nothing"]


def test_stale_and_verify_list_results(small: Book):
    git = ("git", "-C", str(small.root))
    subprocess.run((*git, "init", "-q"), check=True)
    small.write("studies/results/curve.json", json.dumps({"stamp": {"commit": "x", "clean": None}}))
    output = small.nbkit("study", "--stale")
    assert "studies/results/curve.json: which code it ran was not noted" in output
    assert output.strip().endswith("0 measured with this code, 0 stale, 1 not noted")
    output = small.nbkit("study", "--verify")
    assert "note: studies/results/curve.json: copied code, its tree was not noted" in output
    message = one_sentence(small.nbkit("study", "curve", "--stale", status=1))
    assert "give no name" in message
    assert "say which study" in one_sentence(small.nbkit("study", status=1))
    from nbkit.runs import code_tree

    tree = dict.fromkeys(code_tree.tree_of_files(small.root, ("nbkit",)), "0" * 64)
    (small.root / "committed").touch()
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run((*git, "add", "."), check=True)
    subprocess.run(("git", *identity, "-C", str(small.root), "commit", "-qm", "x"), check=True)
    stamp = {"commit": "HEAD", "clean": True, "tree": tree}
    small.write("studies/results/curve.json", json.dumps({"stamp": stamp}))
    assert "it says clean, but nbkit of commit HEAD" in small.nbkit("study", "--verify", status=1)
