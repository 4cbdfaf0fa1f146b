"""Whole runs: resume to the bit, schedules, metrics, every variant, learning."""

import json

import pytest
import torch

from nbkit.envs.arithmetic import longest_completion
from nbkit.recipes.grpo_recipe import arithmetic_recipe
from nbkit.trainers.checkpoint import resume, save
from nbkit.trainers.grpo import GRPOTrainer
from nbkit.trainers.grpo.variants import VARIANTS
from tests.rlvr.small import PROBLEMS, VOCABULARY, by_length, config, generator, model

pytestmark = pytest.mark.chapter(24)


def trainer(settings, problems=PROBLEMS):
    return GRPOTrainer(model(), VOCABULARY, problems, by_length, settings, generator=generator(7))


def weights(run):
    return torch.cat([p.detach().flatten() for p in run.model.parameters()])


@pytest.mark.parametrize("name", ["grpo", "dapo", "reinforce++"])
def test_a_resumed_run_equals_an_unbroken_one_to_the_bit(name, tmp_path):
    settings = config(name, updates=6, minibatches=2, learning_rate=1e-2)
    whole = trainer(settings)
    whole.run(progress=False)
    first = trainer(settings)
    for _ in range(3):
        first.step()
    save(tmp_path / "run.pt", first)
    torch.manual_seed(99)  # nothing may hang on the global generator
    second = trainer(settings)
    second.generator.manual_seed(12345)
    second.run(progress=False, checkpoint=tmp_path / "run.pt")
    assert torch.equal(weights(whole), weights(second))
    assert not torch.equal(weights(whole), weights(first))
    timeless = [
        [{k: v for k, v in m.items() if not k.startswith("seconds")} for m in run.history]
        for run in (whole, second)
    ]
    assert timeless[0] == timeless[1] and len(timeless[0]) == 6


def test_resuming_asks_each_problem_once_an_epoch(tmp_path):
    asked = []

    def noting(problems, completions):
        asked.extend(problems[::4])
        return by_length(problems, completions)

    settings = config(updates=10)  # 4 prompts an update, 40 problems: one epoch
    first = trainer(settings)
    first.reward_fn = noting
    for _ in range(3):
        first.step()
    save(tmp_path / "run.pt", first)
    second = trainer(settings)
    second.reward_fn = noting
    second.run(progress=False, checkpoint=tmp_path / "run.pt")
    assert len(asked) == len(set(asked)) == 40


def test_the_checkpoint_is_replaced_whole(tmp_path, monkeypatch):
    path = tmp_path / "run.pt"
    run = trainer(config())
    save(path, run)
    before = path.read_bytes()

    def dies(state, file):
        file.write(b"half a file")
        raise KeyboardInterrupt

    run.step()
    monkeypatch.setattr(torch, "save", dies)
    with pytest.raises(KeyboardInterrupt):
        save(path, run)
    assert path.read_bytes() == before
    resume(path, trainer(config()))


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "run.pt"
    save(path, trainer(config()))
    with pytest.raises(ValueError, match="another configuration: clip_high, learning_rate"):
        resume(path, trainer(config(learning_rate=1.0, clip_high=0.3)))
    with pytest.raises(ValueError, match="40 problems; now there are 7"):
        resume(path, trainer(config(), PROBLEMS[:7]))
    torch.save({"format": 0}, path)
    with pytest.raises(ValueError, match="no checkpoint"):
        resume(path, trainer(config()))


def test_opening_a_checkpoint_runs_no_code(tmp_path):
    class Evil:
        def __reduce__(self):
            return (print, ("gotcha",))

    torch.save({"format": 1, "trainer": Evil()}, tmp_path / "run.pt")
    with pytest.raises(Exception, match=r"[Ww]eights.only|Unsupported"):
        resume(tmp_path / "run.pt", trainer(config()))


def test_learning_rate_warms_up_and_decays_to_a_tenth():
    run = trainer(config(updates=100, warmup=4, learning_rate=1.0))
    rates = [run.learning_rate(n) for n in range(100)]
    assert rates[:3] == pytest.approx([0.25, 0.5 * 0.99, 0.75 * 0.98])
    assert rates[50] == 0.5 and rates[99] == 0.1 and max(rates) < 1
    constant = trainer(config(updates=100, warmup=0, decay=False, learning_rate=1.0))
    assert {constant.learning_rate(n) for n in range(100)} == {1.0}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_runs_with_its_own_settings(name):
    """With the paper's KL coefficients, and a reference where there is one."""
    settings = config(name, kl_coefficient=VARIANTS[name].get("kl_coefficient", 0.0), updates=2)
    reference = model() if settings.kl_coefficient else None
    history = GRPOTrainer(
        model(),
        VOCABULARY,
        PROBLEMS,
        by_length,
        settings,
        reference=reference,
        generator=generator(),
    ).run(progress=False)
    json.dumps(history)
    wanted = (
        *("reward", "accuracy", "length", "entropy", "silent_groups", "clip_fraction", "tokens"),
        *("discarded_tokens", "total_tokens", "gradient_norm", "learning_rate", "ratio_error"),
        *("seconds/generate", "seconds/reward", "seconds/update", "truncated", "groups"),
    )
    assert set(wanted) <= set(history[-1])
    assert ("kl" in history[-1]) == (reference is not None)
    assert history[1]["total_tokens"] == history[0]["tokens"] + history[1]["tokens"]
    assert all(value == value for metrics in history for value in metrics.values())


def test_an_update_without_any_signal_changes_nothing():
    run = trainer(config("dapo", max_rounds=2))
    run.reward_fn = lambda p, c: [1.0] * len(c)
    before = weights(run)
    metrics = run.step()
    assert torch.equal(before, weights(run)) and metrics["groups"] == 0
    run.reward_fn = by_length
    assert run.step()["groups"] > 0 and not torch.equal(before, weights(run))


def test_stop_and_hook():
    run = trainer(config(updates=50))
    budget = 250
    seen = []
    run.run(
        progress=False,
        stop=lambda m: m["total_tokens"] > budget,
        hook=lambda t, m: seen.append(m["update"]),
    )
    assert len(seen) == len(run.history) < 50
    assert run.history[-2]["total_tokens"] <= budget < run.history[-1]["total_tokens"]


def test_a_policy_learns_to_be_brief():
    """The sign of everything: paid for shortness, answers get shorter."""
    settings = config(updates=25, learning_rate=1e-2, prompts=8)
    history = GRPOTrainer(
        model(),
        VOCABULARY,
        PROBLEMS,
        lambda p, c: [-float(x.length) for x in c],
        settings,
        generator=generator(),
    ).run(progress=False)
    assert history[0]["length"] > 5 and history[-1]["length"] < 2


@pytest.mark.parametrize("name", VARIANTS)
def test_the_recipe_leaves_room_for_the_longest_right_answer(name):
    """Also for DAPO, whose penalty begins before the limit."""
    settings = arithmetic_recipe(name).config
    assert settings.max_new_tokens - settings.overlong_buffer >= longest_completion(6)
    assert settings.kl_coefficient == 0
