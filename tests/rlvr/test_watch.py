"""What a run says of itself: no signal, and samples."""

import pytest

from nbkit.runs.limits import VARIABLE
from nbkit.runs.preemption import Preempted
from nbkit.runs.run import Run, read_state
from nbkit.runs.samples import Sample, read_samples
from nbkit.trainers.grpo import GRPOTrainer
from nbkit.trainers.watch import silence
from tests.rlvr.job import equal, fit, in_parts, plain, trainer
from tests.rlvr.small import PROBLEMS, VOCABULARY, by_length, config, generator, model

pytestmark = pytest.mark.chapter(23)


@pytest.fixture(autouse=True)
def no_tensorboard(monkeypatch):
    monkeypatch.setenv("NBKIT_TRACKERS", "")


# ---- no signal


def test_a_silent_run_is_warned_of_at_1_2_4_and_8_steps():
    one = trainer(equal, updates=9)
    with pytest.warns(UserWarning) as told:
        one.run(progress=False)
    words = [str(one.message) for one in told]
    assert words[0].startswith("first batch: 0% of the groups with a signal")
    for found in ("reward -2", "reward/correct 0", "reward/format 0", "asked: '", "wrote: '"):
        assert found in words[0]
    assert words[0].count("wrote: ") == 3
    assert [word.partition(" steps")[0] for word in words[2:]] == [
        f"no signal in {count}" for count in (2, 4, 8)
    ]
    assert all("supervised model, take easier prompts, or give partial" in w for w in words[1:])
    assert [row["silent_steps"] for row in one.history] == list(range(1, 10))
    assert {str(one.filename) for one in told} == {"nbkit.trainers"}  # no path of this machine


def test_a_run_with_a_signal_is_not_warned_of(recwarn):
    one = trainer(updates=3)
    one.run(progress=False)
    assert not [w for w in recwarn if w.category is UserWarning]
    assert [row["silent_steps"] for row in one.history] == [0, 0, 0]


@pytest.mark.parametrize("name", ["grpo", "dapo", "reinforce++", "rloo"])
def test_what_counts_as_silent(name):
    """Equal rewards; with dynamic sampling an empty batch; for a return the whole batch."""
    kept = {"max_rounds": 1, "overlong_buffer": 0, "updates": 3}
    for reward_fn, silent in ((equal, 1), (in_parts, 0)):
        one = GRPOTrainer(
            model(), VOCABULARY, PROBLEMS, reward_fn, config(name, **kept), generator=generator(7)
        )
        assert one.step()["silent_steps"] == silent
        assert len(one.samples(3)) == 3 and one.samples(3)[0].text
    one = trainer(equal)
    one.step()
    one.reward_fn = in_parts
    assert one.step()["silent_steps"] == 0


def test_no_signal_because_all_is_right_is_told_otherwise():
    row = {"silent_steps": 2.0, "accuracy": 1.0, "reward": 1.0, "truncated": 0.0}
    assert "every answer is right; take harder prompts" in silence(row)
    half = silence(row | {"accuracy": 0.5, "truncated": 0.75})
    assert "75% of the answers met the limit" in half and "partial credit" in half


def test_a_silent_job_stops_resumably_and_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(VARIABLE, "silent_steps=3")
    with pytest.raises(Preempted, match=r"after step 3 .limits.silent_steps is 3; no signal in 3"):
        fit(trainer(equal, updates=8), tmp_path)
    assert read_state(tmp_path) == "preempted"
    words = capsys.readouterr().out
    assert "first batch: 0% of the groups" in words and "no signal in 2 steps" in words
    assert "the checkpoint is saved" in words and "partial credit" in words
    with pytest.raises(Preempted, match=r"after step 6 .*no signal in 6 steps"):
        fit(trainer(equal, updates=8), tmp_path)  # three more, not none
    run = fit(trainer(by_length, updates=8), tmp_path)  # the reward gives partial credit now
    assert [row["silent_steps"] for row in run.history] == [1, 2, 3, 4, 5, 6, 0, 0]
    assert read_state(tmp_path) == "finished"


def test_a_stop_for_silence_changes_nothing(tmp_path, monkeypatch):
    """Resumed it equals an unbroken run to the bit."""
    late = trainer(equal, updates=6, learning_rate=1e-2)
    fit(late, tmp_path / "whole")
    monkeypatch.setenv(VARIABLE, "silent_steps=4")
    with pytest.raises(Preempted):
        fit(trainer(equal, updates=6, learning_rate=1e-2), tmp_path / "halves")
    again = trainer(equal, updates=6, learning_rate=1e-2)
    fit(again, tmp_path / "halves")
    assert plain(again) == plain(late)
    assert told(tmp_path / "halves") == told(tmp_path / "whole")


def told(folder):
    return read_samples(folder / "samples.jsonl")


def test_limits_are_read_and_faulty_ones_refused(monkeypatch):
    assert Run.start({}, seeds=()).limits.bad_batches == 3
    monkeypatch.setenv(VARIABLE, "silent_steps=0,bad_batches=7")
    limits = Run.start({}, seeds=()).limits
    assert (limits.silent_steps, limits.bad_batches) == (0, 7)
    for wrong in ("silent=3", "bad_batches=0", "silent_steps=-1", "silent_steps"):
        monkeypatch.setenv(VARIABLE, wrong)
        with pytest.raises(ValueError, match="write silent_steps=N"):
            Run.start({}, seeds=())


# ---- samples


def test_samples_are_what_the_batch_was(tmp_path):
    seen = []

    def noted(problems, completions):
        seen.append({(p.prompt, c.text) for p, c in zip(problems, completions, strict=True)})
        return in_parts(problems, completions)

    one = trainer(noted, updates=5)
    fit(one, tmp_path, samples_every=2)
    rows = told(tmp_path)
    assert [step for step, _ in rows] == [1] * 4 + [2] * 4 + [4] * 4 + [5] * 4
    for step, sample in rows:
        assert (sample.prompt, sample.text) in seen[step - 1]
        assert sample.reward == sample.parts["long"] == len(sample.text) / 10
        assert sample.parts["zero"] == 0
    last = [sample for step, sample in rows if step == 5]
    assert len({sample.prompt for sample in last}) == 4  # spread over the groups
    size, first = one.config.group_size, one.batch.raw_rewards[: one.config.group_size]
    assert last[0].advantage == pytest.approx(one.batch.advantages[0, 0].item())
    assert last[0].reward == pytest.approx(first[0].item()) and len(first) == size


def test_no_samples_are_written_where_none_are_wanted(tmp_path):
    fit(trainer(updates=2), tmp_path, samples_every=0)
    assert not (tmp_path / "samples.jsonl").exists()


def test_other_samples_can_be_asked_for(tmp_path):
    fit(trainer(updates=2), tmp_path, samples=lambda: [Sample("a", "b")])
    assert told(tmp_path) == [(1, Sample("a", "b")), (2, Sample("a", "b"))]


def test_a_page_that_calls_a_job_is_told_only_of_faults(recwarn, capsys):
    def never():
        raise AssertionError

    with Run.start({}, seeds=(0,)) as run:
        trainer(updates=2).fit(run, save_every=1, samples=never)
    assert not [w for w in recwarn if w.category is UserWarning] and not capsys.readouterr().out
    with pytest.warns(UserWarning, match="first batch: 0%"), Run.start({}, seeds=(0,)) as run:
        trainer(equal, updates=1).fit(run, save_every=1)
