"""What a run says of itself: no signal, samples, and batches on which no step is taken."""

import json
import math

import pytest
import torch

from nbkit.rewards.compose import Composed
from nbkit.runs.limits import VARIABLE
from nbkit.runs.preemption import Preempted
from nbkit.runs.run import Run, read_state
from nbkit.runs.samples import Sample, read_samples
from nbkit.trainers.grpo import GRPOTrainer
from nbkit.trainers.watch import KEPT_BATCHES, bad_batches, reached, save_refused, silence
from tests.rlvr.small import PROBLEMS, VOCABULARY, by_length, config, generator, model

pytestmark = pytest.mark.chapter(23)


@pytest.fixture(autouse=True)
def no_tensorboard(monkeypatch):
    monkeypatch.setenv("NBKIT_TRACKERS", "")


def in_parts(problems, completions):
    """A reward of two parts, from the length of the text."""
    return [
        Composed(len(c.text) / 10, {"long": len(c.text) / 10, "zero": 0.0}) for c in completions
    ]


def equal(problems, completions):
    return [Composed(-2.0, {"correct": 0.0, "format": 0.0}) for _ in completions]


def trainer(reward_fn=in_parts, net=None, **changes):
    return GRPOTrainer(
        net or model(), VOCABULARY, PROBLEMS, reward_fn, config(**changes), generator=generator(7)
    )


def fit(one, folder, **given):
    with Run.start({}, seeds=(0,), folder=folder) as run:
        one.fit(run, save_every=2, **given)
        run.finish({})
    return run


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


def plain(one):
    rows = [{k: v for k, v in m.items() if not k.startswith("seconds")} for m in one.history]
    return json.dumps(rows), [p.tolist() for p in one.model.parameters()]


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


# ---- gradients that are not finite


class Spoiled:
    """A reward that is as `in_parts`; the model's logits are nan in the updates of some steps."""

    def __init__(self, one, steps):
        self.one, self.steps = one, steps
        one.parallel.model.register_forward_hook(self)

    def __call__(self, module, inputs, output):
        if len(self.one.history) + 1 in self.steps and torch.is_grad_enabled():
            output.logits = output.logits * torch.nan
        return output


def spoiled(steps, **changes):
    one = trainer(updates=7, learning_rate=1e-2, **changes)
    Spoiled(one, steps)
    return one


def test_a_bad_batch_is_skipped_counted_and_saved(tmp_path, capsys):
    one, right = spoiled({2, 4}), trainer(updates=1, learning_rate=1e-2)
    right.run(progress=False)
    fit(one, tmp_path)
    assert [row["skipped"] for row in one.history] == [0, 1, 0, 1, 0, 0, 0]
    assert [row["steps"] for row in one.history] == [1, 0, 1, 0, 1, 1, 1]
    assert all(p.isfinite().all() for p in one.model.parameters())
    assert one.history[0]["loss"] == right.history[0]["loss"]
    assert sorted(p.name for p in (tmp_path / "skipped").iterdir()) == [
        "step_00000002.pt",
        "step_00000004.pt",
    ]
    batch = torch.load(tmp_path / "skipped" / "step_00000002.pt", weights_only=True)
    assert batch["ids"].shape[0] == 16 and batch["advantages"].isfinite().all()
    assert batch["skipped"] == 1 and batch["gradient_norm"] != batch["gradient_norm"]
    words = capsys.readouterr().out
    assert "1 gradient step(s) skipped" in words and "skipped/step_00000002.pt" in words
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert rows[1]["gradient_norm"] == "nan" and rows[1]["skipped"] == 1


def test_weights_stay_to_the_bit_and_good_minibatches_count():
    one = spoiled({1})
    before = [p.clone() for p in one.model.parameters()]
    one.step()
    assert all(torch.equal(a, b) for a, b in zip(before, one.model.parameters(), strict=True))
    half = trainer(updates=3, minibatches=2, learning_rate=1e-2)
    passes = []

    def once(module, inputs, output):
        if torch.is_grad_enabled():
            passes.append(None)
            if len(passes) == 1:
                output.logits = output.logits * torch.nan
        return output

    half.parallel.model.register_forward_hook(once)
    row = half.step()
    assert (row["skipped"], row["steps"]) == (1, 1)
    assert row["loss"] == row["loss"] and row["gradient_norm"] > 0
    assert not torch.equal(before[0], next(half.model.parameters()))


def test_a_limit_of_bad_batches_ends_the_run_after_a_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "bad_batches=2")
    one = spoiled({2, 4, 5})
    with pytest.raises(RuntimeError, match="2 steps in a row"):
        fit(one, tmp_path)
    assert len(one.history) == 5 and read_state(tmp_path) == "failed"
    again = trainer(updates=7, learning_rate=1e-2)
    fit(again, tmp_path)  # goes on from step 5
    monkeypatch.setenv(VARIABLE, "bad_batches=3")
    whole = spoiled({2, 4, 5})
    fit(whole, tmp_path / "whole")
    assert plain(again) == plain(whole)


def test_on_a_page_three_in_a_row_end_it(tmp_path):
    one = spoiled({2, 3, 4})
    with (
        pytest.warns(UserWarning, match="3 such step"),
        pytest.raises(RuntimeError, match="3 steps in a row"),
    ):
        one.run(progress=False, checkpoint=tmp_path / "run.pt")
    again = trainer(updates=7, learning_rate=1e-2)
    again.run(progress=False, checkpoint=tmp_path / "run.pt")
    assert [row["skipped"] for row in again.history] == [0, 1, 1, 1, 0, 0, 0]


def test_rows_and_files_of_skipped_batches(tmp_path):
    rows = [{"skipped": 1.0}, {}, {"skipped": 2.0}, {"skipped": 1.0}]
    assert bad_batches(rows) == 2 and bad_batches(rows[:2]) == 0 == bad_batches([])
    assert [reached(n, 2) for n in range(5)] == [False, False, True, False, True]
    assert not reached(4, 0)
    for step in range(KEPT_BATCHES):
        assert save_refused(tmp_path, step, {"a": torch.ones(1)}) is not None
    assert save_refused(tmp_path, 99, {"a": torch.ones(1)}) is None
    assert save_refused(tmp_path, 3, {"a": torch.ones(1)}) is not None  # taken again


def test_an_infinite_loss_takes_no_step_although_its_gradient_is_finite():
    """log 0 of a banned token: the loss is inf, its gradient in the logits 1 - p."""
    one = trainer()
    one.model.zero_grad()
    net = one.parallel.model
    logits = net(input_ids=torch.tensor([[2, 3, 4]])).logits
    before = [p.clone() for p in one.model.parameters()]
    one.parallel.backward(logits.sum() + torch.tensor(torch.inf))
    assert math.isnan(one.parallel.try_step())
    assert all(torch.equal(a, b) for a, b in zip(before, one.model.parameters(), strict=True))


def test_a_page_that_calls_a_job_is_told_only_of_faults(recwarn, capsys):
    def never():
        raise AssertionError

    with Run.start({}, seeds=(0,)) as run:
        trainer(updates=2).fit(run, save_every=1, samples=never)
    assert not [w for w in recwarn if w.category is UserWarning] and not capsys.readouterr().out
    with pytest.warns(UserWarning, match="first batch: 0%"), Run.start({}, seeds=(0,)) as run:
        trainer(equal, updates=1).fit(run, save_every=1)
