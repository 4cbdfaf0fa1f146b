"""What all trainers share: limits of a pass, old files, rewards on the device, a reference."""

import pytest
import torch

from nbkit.data.encode import Example
from nbkit.envs.helpful import all_questions
from nbkit.parallel import ParallelConfig
from nbkit.runs.run import Run
from nbkit.text.scalar_models import ScalarModel
from nbkit.trainers.checkpoint import resume, save
from nbkit.trainers.micro import cut, micro_batches
from nbkit.trainers.reward_model import RewardModelConfig, reward_function
from nbkit.trainers.rlhf import RLHFConfig, RLHFTrainer
from nbkit.trainers.sft import SFTConfig, SFTTrainer
from tests.rlhf.small import PAD, VOCABULARY, examples, generator, model

pytestmark = pytest.mark.chapter(21)
QUESTIONS = all_questions(False)


def by_length(problems, completions):
    return [one.length / 7 for one in completions]


def trainer(reward_fn=by_length, problems=QUESTIONS, reference=None, policy=None, **changes):
    settings = RLHFConfig(**{"updates": 3, "prompts": 6, "max_new_tokens": 7} | changes)
    return RLHFTrainer(
        policy or model(), VOCABULARY, problems, reward_fn, settings,
        reference=model(7) if reference is None else reference,
        value=ScalarModel.from_causal(model(1), head="random", seed=5), generator=generator(),
    )  # fmt: skip


def sft(net):
    settings = SFTConfig(steps=3, batch_size=4, learning_rate=1e-2)
    return SFTTrainer(net, examples(8), settings, pad_id=PAD, generator=generator())


@pytest.mark.parametrize("make", [lambda net: trainer(policy=net), sft])
def test_gradients_of_an_earlier_training_are_not_added_to_the_first_step(make):
    clean, used = model(), model()
    for weights in used.parameters():
        weights.grad = torch.full_like(weights, 3.0)
    first, second = make(clean), make(used)
    first.step()
    second.step()
    pairs = zip(clean.parameters(), used.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_a_checkpoint_of_a_loop_without_a_trainer_is_named(tmp_path):
    settings = {"seeds": (0,), "folder": tmp_path}
    with Run.start({}, **settings) as run:
        run.checkpoint(1, lambda: {"order": 3}, every=1)
    with (
        pytest.raises(ValueError, match="step_00000001 was written by a loop of the job's own"),
        Run.start({}, **settings) as run,
    ):
        sft(model()).fit(run, save_every=1)


def test_a_phase_names_the_seconds_of_a_step():
    with Run.start({}, seeds=(0,)) as run:
        sft(model()).fit(run, save_every=0, phase="update")
        run.finish({})
    for row in run.history:
        assert 0 < row["seconds/update"] <= row["seconds/step"] and row["tokens"] > 0


def timeless(history):
    return [{k: v for k, v in row.items() if not k.startswith("seconds")} for row in history]


def test_a_pass_is_limited_by_tokens_or_by_rows():
    attention = torch.arange(6) < torch.tensor([6, 2, 4, 1, 3])[:, None]
    assert [part.tolist() for part in micro_batches(attention, None, 2)] == [[0, 1], [2, 3], [4]]
    assert cut([6, 2, 4, 1, 3], None, 2) == [[0, 1], [2, 3], [4]]
    assert cut([6, 2, 4], None) == [[0, 1, 2]] and cut([], None) == []
    by_tokens = [part.tolist() for part in micro_batches(attention, 8)]
    assert by_tokens == cut([6, 2, 4, 1, 3], 8)
    assert sorted(row for part in by_tokens for row in part) == [0, 1, 2, 3, 4]
    for config, name in ((SFTConfig, "micro_rows"), (RewardModelConfig, "micro_pairs")):
        with pytest.raises(ValueError, match=f"micro_tokens is 9 and {name} is 2; give one"):
            config(micro_tokens=9, **{name: 2})
        with pytest.raises(ValueError, match=name):
            config(**{name: 0})


def test_a_file_of_one_optimiser_for_both_models_is_read(tmp_path):
    """As they were written when policy and value model were two groups of one AdamW."""
    whole, first, second = trainer(), trainer(), trainer()
    whole.run(progress=False)
    first.step()
    first.step()
    save(tmp_path / "new.pt", first)
    found = torch.load(tmp_path / "new.pt", weights_only=True)
    state = found["trainer"]
    models, optimisers = state.pop("models"), state.pop("optimisers")
    joined, groups, before = {}, [], 0
    for name in ("policy", "value"):
        (group,) = optimisers[name]["param_groups"]
        groups.append(group | {"params": [before + number for number in group["params"]]})
        joined |= {before + number: x for number, x in optimisers[name]["state"].items()}
        before += len(group["params"])
    state |= models | {"optimiser": {"state": joined, "param_groups": groups}}
    torch.save(found, tmp_path / "old.pt")
    second.generator.manual_seed(99)
    resume(tmp_path / "old.pt", second)
    second.run(progress=False)
    assert timeless(second.history) == timeless(whole.history)
    assert all(
        torch.equal(x, second.value.state_dict()[name])
        for name, x in whole.value.state_dict().items()
    )


def test_several_ranks_need_a_folder(tmp_path):
    one = trainer()
    save(tmp_path / "run.pt", one)
    one.parallel.config = ParallelConfig(backend="ddp")
    for call in (save, resume):
        with pytest.raises(ValueError, match=r"run\.pt is a file, .* 'ddp' needs a folder"):
            call(tmp_path / "run.pt", one)
    with pytest.raises(TypeError, match="RLHFTrainer knows no environment"):
        save(tmp_path / "other.pt", trainer(), environment="exact")


def test_a_reward_model_on_the_device_scores_what_the_function_scores():
    judge = ScalarModel.from_causal(model(4), head="random", seed=2)
    function = trainer(reward_function(judge, VOCABULARY), micro_rows=4)
    device = trainer(judge, micro_rows=4)
    for one, two in zip(function.run(progress=False), device.run(progress=False), strict=True):
        assert timeless([one])[0] == pytest.approx(timeless([two])[0], abs=1e-4)
    assert len({row["reward"] for row in device.history}) == 3
    assert torch.allclose(function.batch.scores, device.batch.scores, atol=1e-4)


def test_prompts_may_be_ids_already():
    encoded = [Example(tuple(VOCABULARY.encode(asked.prompt)), ()) for asked in QUESTIONS]
    one, two = trainer(), trainer(problems=encoded)
    assert timeless(one.run(progress=False)) == timeless(two.run(progress=False))


def test_a_reference_is_left_as_it_was_and_needed():
    reference = model(7)
    trainer(reference=reference).step()
    assert all(p.requires_grad and p.grad is None for p in reference.parameters())
    with pytest.raises(ValueError, match="reference is missing"):
        RLHFTrainer(
            model(), VOCABULARY, QUESTIONS, by_length, RLHFConfig(updates=1),
            value=ScalarModel.from_causal(model()), generator=generator(),
        )  # fmt: skip


def test_a_stage_of_demonstrations_stops_saves_and_goes_on(tmp_path):
    settings = SFTConfig(steps=5, batch_size=8, learning_rate=1e-2, warmup=1)

    def stage(seed=3):
        return SFTTrainer(model(), examples(), settings, pad_id=PAD, generator=generator(seed))

    whole, again, path = stage(), stage(seed=8), tmp_path / "sft.pt"
    whole.run(progress=False)
    stage().run(progress=False, checkpoint=path, stop=lambda row: row["step"] == 2)
    again.run(progress=False, checkpoint=path)
    assert again.history == whole.history and again.finished
    other = SFTTrainer(model(), examples()[:20], settings, pad_id=PAD, generator=generator())
    with pytest.raises(ValueError, match="32 examples; now there are 20"):
        resume(path, other)
