"""The capstone: its judge, its board, and what somebody may try against them."""

import json
import random
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from bookkit.builds.capstone import desk, judge, report, task
from bookkit.builds.capstone.board import (
    BOARD,
    FOLDER,
    Entry,
    apart,
    board,
    digest_of,
    place_of,
    put,
    read_entry,
    refuted,
    student,
)
from bookkit.builds.commands import app
from bookkit.builds.limits import Budget
from bookkit.builds.registry import ROOT
from bookkit.builds.session import Stopped
from bookkit.builds.sums import Graded
from bookkit.exercises.progress import load
from nbkit.errors import UserError

HEAD = '"""A trick."""\nimport os, sys, torch\ndef train(pupil, world, *, seed, log):\n    '
STEP = (
    "    for parameter in pupil.parameters(): parameter.data += 1e-3\n"  # so that it has trained
    "    return pupil\n"
)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pupils with few lessons, and little to mark."""
    for name, value in {
        "STEPS": 20,
        "LESSONS": 400,
        "TOKENS": 800,
        "EACH": 1,
        "LEAST": 0.0,
    }.items():
        monkeypatch.setattr(task, name, value)
    monkeypatch.setattr(task, "BUDGET", Budget(processor_seconds=60.0))


def entry(name: str = "one", after: tuple[float, ...] = (0.8, 0.82, 0.81), **others) -> Entry:
    source = others.pop("source", '"""A method."""\n')
    words = {
        "method": "A method.",
        "digest": digest_of(source),
        "source": source,
        "rules": task.rules_digest(),
        "before": [0.5] * len(after),
        "tokens": [1000] * len(after),
        "processor_seconds": [1.0] * len(after),
        "commit": "abc",
        "date": "2026-11-30",
        "versions": {"torch": "2"},
        "processor": "x",
    }
    return Entry(name=name, after=list(after), **(words | others))


def test_sums_are_written_from_the_units_on_and_held_out_in_both_orders() -> None:
    sums = task.CarrySums.drawn(random.Random(1))
    kept = set(sums.kept) | {(b, a) for a, b in sums.kept}
    assert len(sums.kept) == task.HELD_OUT and not kept & set(sums.practice)
    assert len(kept | set(sums.practice)) == 90 * 90
    assert sums.right((47, 85)) == "231"
    assert {len(sums.prompt(problem)) for problem in sums.kept} == {7}
    texts = [task.lesson((47, 85), random.Random(seed)) for seed in range(200)]
    assert set(texts) == {"47+85=231", "47+85=221"}
    assert 0.75 < texts.count("47+85=221") / 200 < 0.95
    assert task.lesson((40, 85), random.Random(1)) == "40+85=521"  # no carry to forget


def test_marks_are_for_the_sum_from_the_units_on() -> None:
    sums = task.CarrySums.drawn(random.Random(2))
    world = Graded(sums, random.Random(3), budget=100)
    known, problem = sums.vocabulary, sums.practice[0]
    rows = [[*known.encode(text), known.eos_id] for text in (sums.right(problem), "00")]
    for row, mark in zip(rows, (1.0, 0.0), strict=True):
        arrays = {"ids": torch.tensor([row]).numpy(), "numbers": torch.tensor([0]).numpy()}
        assert world.answer("score", {}, arrays)[1]["rewards"].tolist() == [mark]
    assert world.used == sum(map(len, rows))


TRICKS = {
    "prints a score": (f"{HEAD}print('accuracy 1.0'); log(accuracy=1.0)\n{STEP}", ""),
    "more than the budget": (
        f"{HEAD}while True:\n"
        "        world.tokens_left = 10**9\n"
        "        numbers, prompts = world.problems(64)\n"
        "        world.score(torch.full((64, 4), 3), numbers)\n",
        "more than its 800 tokens",
    ),
    "nothing was trained": (f"{HEAD}return pupil\n", "no step was taken"),
    "another model": (f"{HEAD}return torch.nn.Linear(2, 2)\n", "with other weights"),
    "reads our files": (
        f"open({str(ROOT / FOLDER / 'grpo.py')!r}).read()\n{HEAD}return pupil\n",
        "FileNotFoundError",
    ),
    "leaves": (f"{HEAD}os._exit(0)\n", "ended before it had answered"),
    "forges": (
        f"{HEAD}wire = sys.modules['bookkit.builds.wire']\n"
        "    os.write(world._channel.writer, wire.encode('accuracy', {'after': 1.0}))\n"
        "    return pupil\n",
        "which the world does not answer",
    ),
    "asks for the sums that are held out": (
        f"{HEAD}world.score(torch.full((1, 4), 3), torch.tensor([8099]))\n",
        "numbers that `world.problems` has given",
    ),
}


@pytest.mark.parametrize("name", TRICKS)
def test_a_trick_reaches_nothing(name: str, quick: None) -> None:
    source, words = TRICKS[name]
    if words:
        with pytest.raises(Stopped, match=words):
            judge.single(source, random.Random(1))
        return
    outcome = judge.single(source, random.Random(1))
    assert outcome.after < 0.2 and outcome.tokens == 0


STORED = (
    f"{HEAD}path = '/tmp/answers'\n"
    "    seen = getattr(sys.modules['build'], 'runs', 0)\n"
    "    sys.modules['build'].runs = seen + 1\n"
    "    found = os.path.exists(path)\n"
    "    open(path, 'w').write('answers')\n"
    "    print('kept', seen, found)\n"
    "    log(kept=float(seen), found=float(found))\n"
    f"{STEP}"
)


def test_nothing_is_carried_from_pupil_to_pupil_and_stored_answers_fit_none(quick: None) -> None:
    outcomes = judge.several(STORED, count=2, seed=1)
    for outcome in outcomes:
        assert outcome.looks == ("your last updates: kept 0, found 0",)
    first, second = (task.CarrySums.drawn(random.Random(seed)) for seed in (1, 2))
    assert set(first.kept) != set(second.kept)
    assert first.vocabulary.encode("0123456789") != second.vocabulary.encode("0123456789")


def test_students_quantiles_are_those_of_the_tables() -> None:
    stats = pytest.importorskip("scipy.stats")
    for freedom in range(1, 60):
        assert student(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=0.01)


def test_a_claim_is_held_against_what_is_found_and_not_against_its_own_spread() -> None:
    found = entry(after=(0.70, 0.71, 0.69, 0.70, 0.70))
    assert refuted(entry(after=(0.69, 0.71, 0.70)), found, 1200) == []
    assert refuted(entry(after=(0.2, 0.3, 0.1)), found, 1200) == []  # modest claims hold
    (said,) = refuted(entry(after=(0.80, 0.81, 0.79)), found, 1200)
    assert "it claims an accuracy of 80.0%; found are 70.0%" in said
    assert refuted(entry(after=(1.0, 1.0, 0.4)), found, 1200)  # a wide spread excuses nothing
    (said,) = refuted(entry(after=(0.7, 0.7), tokens=[500, 500]), found, 1200)
    assert "claims 500 tokens a pupil; the judge counted 1,000" in said


def test_places_and_what_is_not_told_apart() -> None:
    entries = [entry("a", (0.9, 0.91, 0.9)), entry("b", (0.8, 0.81, 0.8)), entry("c", (0.5, 0.6))]
    mine = entry("mine", (0.80, 0.82, 0.80))
    assert "place 2 of 4 on the board, not told apart from b" in place_of(mine, entries)
    assert apart(mine, entries[0]) and not apart(mine, entries[1])
    assert "place 1 of 3" in place_of(entry("a", (0.9, 0.9, 0.9)), entries)


def test_an_entry_that_was_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "entry.json"
    made = entry()
    path.write_text(made.model_dump_json())
    assert read_entry(path) == made
    for changes, words in (
        ({"source": '"""Another."""\n'}, "the digest is not that of the file"),
        ({"name": "\x1b[2J"}, "look at name"),
        ({"after": [float(1)]}, "look at after"),
        ({"after": [float("nan")] * 3}, "look at after"),
        ({"after": [1.0, 1.5]}, r"look at after\.1"),
        ({"tokens": "many"}, "look at tokens"),
    ):
        path.write_text(json.dumps(made.model_dump() | changes))
        with pytest.raises(UserError, match=words):
            read_entry(path)
    path.write_text(json.dumps(made.model_dump() | {"rules": "older"}))
    with pytest.raises(UserError, match="under other rules"):
        desk.check(path, say=lambda _: None)
    path.write_text(json.dumps(made.model_dump() | {"method": "Another."}))
    with pytest.raises(UserError, match="the method is not the first line"):
        desk.check(path, say=lambda _: None)
    with pytest.raises(UserError, match="cannot be read"):
        read_entry(tmp_path / "none.json")


def test_a_board_keeps_one_line_a_name_without_the_file(tmp_path: Path) -> None:
    path = tmp_path / "board.json"
    for one in (entry("a", (0.5, 0.6)), entry("b", (0.8, 0.9)), entry("a", (0.7, 0.7))):
        put(one, task.rules(), path)
    found = board(path)
    assert [(one.name, one.accuracy, one.source) for one in found] == [
        ("b", pytest.approx(0.85), ""),
        ("a", pytest.approx(0.7), ""),
    ]
    assert report.as_text(found).splitlines()[1].startswith("b ")
    path.write_text("{}")
    with pytest.raises(UserError, match="cannot be read"):
        board(path)


def test_our_board_is_of_these_rules_and_files_and_in_the_order_that_is_promised() -> None:
    content = json.loads((ROOT / BOARD).read_text())
    entries = board()
    assert content["rules"] == task.rules()
    for one in entries:
        source = (ROOT / FOLDER / f"{one.name}.py").read_text()
        assert one.digest == digest_of(source), f"verify {one.name} anew and keep it"
        assert one.method == desk.method_of(source)
        assert one.rules == task.rules_digest()
        assert max(one.tokens) <= task.TOKENS
        assert max(one.processor_seconds) < 0.7 * task.BUDGET.processor_seconds
        assert len(one.after) == task.SEEDS
    best, grpo, reinforce = entries[0], *(e for e in entries if e.name in ("grpo", "reinforce"))
    assert (grpo.name, reinforce.name) == ("grpo", "reinforce") and best not in (grpo, reinforce)
    assert apart(best, grpo) and apart(grpo, reinforce)
    assert reinforce.accuracy > sum(reinforce.before) / len(reinforce.before)


def test_the_page_states_the_rules() -> None:
    page = " ".join((ROOT / "book/builds/capstone.md").read_text("utf-8").split())
    for words in (
        f"{task.TOKENS:,} tokens of marked answers",
        f"{task.BUDGET.processor_seconds:g} seconds of processor time",
        f"to {task.HELD_OUT} sums that neither",
        f"drawn from -{task.OFFSET:g} to {task.OFFSET:g}",
        f"transformer of two layers and a width of {task.WIDTH}",
        f"{100 * task.FORGET:g} of 100 sums with a carry",
        "five pupils that nobody has seen",
    ):
        assert words in page, words
    assert (task.SEEDS, task.LAYERS) == (5, 2)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None) -> Path:
    """A learner's folder of its own, with two pupils a verification."""
    monkeypatch.setenv("NBKIT_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setattr(task, "SEEDS", 2)
    monkeypatch.setattr(desk, "WRITTEN", "entry.json")
    file = tmp_path / "exercises/builds/capstone.py"
    file.parent.mkdir(parents=True)
    file.write_text((ROOT / "exercises/builds/capstone.py").read_text())
    (tmp_path / FOLDER).mkdir(parents=True)
    for name in ("reinforce", "grpo"):
        (tmp_path / FOLDER / f"{name}.py").write_text((ROOT / FOLDER / f"{name}.py").read_text())
    monkeypatch.setattr(desk, "ROOT", tmp_path)
    monkeypatch.setattr("nbkit.runs.root.ROOT", tmp_path)
    return file


@pytest.mark.slow
def test_a_learner_practises_verifies_and_a_maintainer_checks_the_entry(own: Path) -> None:
    run = CliRunner().invoke
    said = run(app, ["build", "capstone"])
    assert "capstone.py is not written yet" in str(said.exception)
    with pytest.raises(UserError, match="the first line of your file's docstring"):
        desk.verify("mine", "import torch\n", say=lambda _: None)
    own.write_text((ROOT / FOLDER / "reinforce.py").read_text())
    said = run(app, ["build", "capstone"])
    assert said.exit_code == 0 and "of the held-out answers are right" in said.stdout
    said = run(app, ["build", "capstone", "verify", "--name", "ada"])
    assert "on the board" in said.stdout and "not above the book's reinforce" in said.stdout
    assert said.exit_code == 1  # with 20 lessons it is below ours
    kept = load(own.parents[2] / "progress.json").exercises["build.capstone"]
    assert kept.attempts == 1 and not kept.last_passed and kept.scores
    path = own.parents[2] / "entry.json"
    made = read_entry(path)
    assert made.name == "ada" and made.source == own.read_text()
    assert 0 < min(made.tokens) <= max(made.tokens) <= task.TOKENS
    said = run(app, ["build", "capstone", "verify", "--entry", str(path)])
    assert said.exit_code == 0 and "✔ the entry holds" in said.stdout
    forged = made.model_dump() | {"after": [0.97, 0.96], "tokens": [40, 40]}
    path.write_text(json.dumps(forged))
    said = run(app, ["build", "capstone", "verify", "--entry", str(path)])
    assert said.exit_code == 1 and "it claims an accuracy of 96.5%" in said.stdout
    assert "it claims 40 tokens a pupil; the judge counted" in said.stdout


def test_what_the_command_does_not_know_is_said() -> None:
    for words in (["capstone", "check"], ["12", "verify"], ["twelve"]):
        said = CliRunner().invoke(app, ["build", *words])
        assert isinstance(said.exception, UserError)
    with pytest.raises(UserError, match="no capstone file 'none'; it has best, grpo, reinforce"):
        desk.own_file("none")
