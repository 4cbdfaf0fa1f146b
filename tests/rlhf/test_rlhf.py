"""Stage 3: what each token is paid, what is computed where, and a run that can be resumed."""

import copy
import math

import pytest
import torch

from nbkit.envs.helpful import all_questions, gold_reward
from nbkit.rewards.compose import Composed
from nbkit.text.scalar_models import ScalarModel, SharedActorCritic
from nbkit.trainers.checkpoint import resume, save
from nbkit.trainers.completions import align, policy_outputs
from nbkit.trainers.reward_model import reward_function
from nbkit.trainers.rlhf import RLHFConfig, RLHFTrainer
from nbkit.trainers.rlhf.batch import token_rewards
from nbkit.trainers.rlhf.evaluation import evaluate, sample_table
from nbkit.trainers.rlhf.update import critic_loss, policy_loss
from tests.rlhf.small import VOCABULARY, generator, model

pytestmark = pytest.mark.chapter(21)
QUESTIONS = all_questions(False)


def settings(**changes):
    small = {"updates": 4, "prompts": 6, "max_new_tokens": 7, "micro_tokens": None}
    return RLHFConfig(**{**small, **changes})


def words(problems, completions):
    """A reward that differs, and that an untrained model can earn."""
    return [c.text.count("the") + 0.1 * c.length for c in completions]


def trainer(config=None, *, reward_fn=words, shared=False, seed=0, **more):
    policy = model(seed)
    value = None if shared else ScalarModel.from_causal(model(seed + 1), head="random", seed=5)
    return RLHFTrainer(
        SharedActorCritic(policy, head="random") if shared else policy,
        VOCABULARY, QUESTIONS, reward_fn, config or settings(),
        reference=model(seed + 7), value=value, generator=generator(seed), **more,
    )  # fmt: skip


# --- what each token is paid


def test_token_rewards_by_hand():
    """Two answers of 3 and 2 tokens; score on the last real token, beta times KL on each."""
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]]).bool()
    kl = torch.tensor([[0.5, -0.25, 1.0], [2.0, 0.0, 99.0]])
    got = token_rewards(
        torch.tensor([1.0, -2.0]), torch.tensor([False, True]), kl, mask,
        kl_coefficient=0.1, missing_eos_penalty=0.5,
    )  # fmt: skip
    expected = [[-0.05, 0.025, 1 - 0.1], [-0.2, -2.5, 0.0]]
    assert torch.allclose(got, torch.tensor(expected))
    same = {"kl_coefficient": 0.1, "missing_eos_penalty": 0.5, "whitened": True}
    white = token_rewards(torch.tensor([1.0, -2.0]), torch.tensor([False, True]), kl, mask, **same)
    counted = got[mask]
    expected = (counted - counted.mean()) / counted.std() + counted.mean()
    assert torch.allclose(white[mask], expected, atol=1e-5) and white[1, 2] == 0


def test_the_sum_of_token_rewards_is_score_minus_beta_kl():
    run = trainer(settings(kl_coefficient=0.3))
    run.step()
    batch = run.batch
    kl = torch.where(batch.mask, batch.logprobs - batch.ref_logprobs, 0.0).sum(1)
    assert torch.allclose(batch.rewards.sum(1), batch.scores - 0.3 * kl, atol=1e-5)
    assert run.history[0]["kl"] == pytest.approx(kl.mean().item(), abs=1e-5)
    assert run.history[0]["kl_penalty"] == pytest.approx(0.3 * kl.mean().item(), abs=1e-5)
    assert run.history[0]["reward"] == pytest.approx(batch.scores.mean().item(), abs=1e-5)


# --- what is computed where


def test_logprobs_and_values_row_by_row():
    """The batch, padded on both sides, against each row alone: values are of the state before."""
    run = trainer()
    policy, value = copy.deepcopy(run.policy), copy.deepcopy(run.value)
    run.step()
    batch, width = run.batch, run.batch.mask.shape[1]
    assert len({int(row.sum()) for row in batch.attention}) > 1
    for row in range(len(batch)):
        ids = batch.ids[row][batch.attention[row]]
        count = int(batch.mask[row].sum())
        logits = policy(input_ids=ids[None]).logits[0].log_softmax(-1)
        states = range(len(ids) - count - 1, len(ids) - 1)
        expected = torch.stack([logits[t, ids[t + 1]] for t in states])
        assert torch.allclose(batch.logprobs[row, :count], expected, atol=1e-5)
        numbers = value(ids[None], torch.ones(1, len(ids)))[0]
        assert torch.allclose(batch.values[row, :count], numbers[list(states)], atol=1e-5)
        assert (batch.logprobs[row, count:] == 0).all() and count <= width


def test_the_ratio_is_one_before_the_first_step():
    whole = trainer(settings(minibatches=1, epochs=1)).step()
    # The same rows in the same pass, with and without a gradient: at most two units in the last
    # place of a log-probability between -8 and -4 (none with AVX2, one with plain instructions).
    assert whole["ratio_error"] <= 2**-20
    parts = trainer(settings(minibatches=3, epochs=2)).step()
    assert parts["ratio_error"] < 1e-5 and parts["steps"] == 6
    assert whole["sampler_error"] < 1e-4


def test_the_losses_against_plain_loops():
    run = trainer(settings(clip=0.1, value_clip=0.05))
    run.step()
    policy, batch = model(3), run.batch
    values = run.batch.values + 0.2 * torch.randn(batch.values.shape, generator=generator(8))
    loss, own, metrics = policy_loss(policy, batch, run.config)
    critic, critic_metrics = critic_loss(values, batch, run.config)
    part = align(batch.ids, batch.attention, batch.mask)
    logp, _, _ = policy_outputs(policy, part, 1.0)
    first, second, clipped, count = 0.0, 0.0, 0, 0
    for i in range(len(batch)):
        for t in range(batch.mask.shape[1]):
            if not batch.mask[i, t]:
                continue
            a = batch.advantages[i, t].item()
            r = math.exp((logp[i, t] - batch.logprobs[i, t]).item())
            first += max(-r * a, -min(max(r, 0.9), 1.1) * a)
            clipped += (r > 1.1 and a > 0) or (r < 0.9 and a < 0)
            v, old, g = (x[i, t].item() for x in (values, batch.values, batch.returns))
            near = old + min(max(v - old, -0.05), 0.05)
            second += 0.5 * max((v - g) ** 2, (near - g) ** 2)
            count += 1
    assert own is None and loss.item() == pytest.approx(first / count, abs=1e-5)
    assert metrics["clip_fraction"] == pytest.approx(clipped / count) and clipped > 0
    assert critic.item() == pytest.approx(second / count, abs=1e-5)
    assert critic_metrics["value_loss"] == pytest.approx(second / count, abs=1e-5)


def test_micro_batches_change_memory_and_not_the_result():
    runs = [trainer(settings(micro_tokens=micro, updates=2)) for micro in (None, 60)]
    for run in runs:
        run.run(progress=False)
    for name, whole in runs[0].policy.state_dict().items():
        assert torch.allclose(whole, runs[1].policy.state_dict()[name], atol=5e-4), name
    first, second = (run.history[0] for run in runs)
    for name in ("policy_loss", "value_loss", "kl", "gradient_norm", "value_gradient_norm"):
        assert first[name] == pytest.approx(second[name], abs=1e-4), name


def test_separate_models_have_separate_gradients():
    """The value coefficient belongs to a shared trunk; a value model does not move the policy."""
    states = []
    for coefficient in (0.1, 10.0):
        run = trainer(settings(value_coefficient=coefficient, updates=1))
        run.step()
        states.append(run.policy.state_dict())
    assert all(torch.equal(x, states[1][name]) for name, x in states[0].items())
    shared = []
    for coefficient in (0.1, 10.0):
        run = trainer(settings(value_coefficient=coefficient, updates=1), shared=True)
        metrics = run.step()
        assert "value_gradient_norm" not in metrics
        shared.append(run.policy.state_dict())
    assert not all(torch.equal(x, shared[1][name]) for name, x in shared[0].items())


def test_value_warmup_leaves_the_policy_alone():
    run = trainer(settings(value_warmup=1, updates=2))
    before = copy.deepcopy(run.policy.state_dict())
    values = copy.deepcopy(run.value.state_dict())
    run.step()
    assert all(torch.equal(x, run.policy.state_dict()[name]) for name, x in before.items())
    assert not all(torch.equal(x, run.value.state_dict()[name]) for name, x in values.items())
    run.step()
    assert not all(torch.equal(x, run.policy.state_dict()[name]) for name, x in before.items())


def test_the_reference_and_the_reward_model_stay_as_they_are():
    frozen = ScalarModel.from_causal(model(4), head="random")
    run = trainer(reward_fn=reward_function(frozen, VOCABULARY), monitors={"gold": gold_reward})
    before = copy.deepcopy((run.reference.state_dict(), frozen.state_dict()))
    history = run.run(progress=False)
    for old, new in zip(before, (run.reference.state_dict(), frozen.state_dict()), strict=True):
        assert all(torch.equal(x, new[name]) for name, x in old.items())
    assert all(step["gold"] < 0 for step in history) and len(history) == 4
    assert run.finished


# --- rewards from elsewhere


def test_a_verifier_in_place_of_the_reward_model():
    """One changed argument; parts of a composed reward are on record, None teaches nothing."""

    def verifier(problems, completions):
        rewards = [
            Composed(float(c.length > 3), {"long": float(c.length > 3)}) for c in completions
        ]
        rewards[0] = None
        return rewards

    run = trainer(reward_fn=verifier)
    metrics = run.step()
    assert metrics["unscored"] == 1.0 and metrics["reward/long"] == metrics["reward"]
    assert not run.batch.mask[0].any() and (run.batch.advantages[0] == 0).all()
    assert run.batch.mask[1:].any(1).all()


def test_the_interface_is_that_of_the_group_trainer():
    from nbkit.trainers.grpo import GRPOTrainer
    from nbkit.trainers.grpo.variants import variant

    seen = []

    def watched(problems, completions):
        seen.append((type(problems[0]), type(completions[0]), len(problems) == len(completions)))
        return words(problems, completions)

    trainer(reward_fn=watched).step()
    small = {"updates": 1, "prompts": 2, "group_size": 2, "max_new_tokens": 5}
    config = variant("grpo", kl_coefficient=0.0, **small)
    GRPOTrainer(model(), VOCABULARY, QUESTIONS, watched, config, generator=generator()).step()
    assert seen[0] == seen[1] and seen[0][2]


def test_a_completion_that_does_not_end_is_charged():
    plain, charged = (trainer(settings(missing_eos_penalty=p, minibatches=1)) for p in (0.0, 2.0))
    for run in (plain, charged):
        run.step()
    cut = plain.batch.truncated
    assert cut.any()
    difference = plain.batch.rewards.sum(1) - charged.batch.rewards.sum(1)
    assert torch.allclose(difference, 2.0 * cut.float(), atol=1e-5)
    assert torch.equal(plain.batch.scores, charged.batch.scores)


def test_an_adaptive_price_follows_the_divergence():
    config = settings(kl_coefficient=0.1, kl_target=1e-3, kl_horizon=60.0)
    run = trainer(config)
    prices = [run.step()["kl_coefficient"] for _ in range(3)]
    assert prices[0] == 0.1 and prices[1] == pytest.approx(0.1 * 1.02)
    assert prices[2] == pytest.approx(0.1 * 1.02**2)


# --- runs


def numbers(history):
    return [{k: v for k, v in step.items() if not k.startswith("seconds")} for step in history]


@pytest.mark.parametrize("shared", [False, True])
def test_a_resumed_run_equals_an_unbroken_one_to_the_bit(tmp_path, shared):
    config = settings(kl_coefficient=0.1, kl_target=0.5, kl_horizon=50.0, decay=True)
    whole = trainer(config, shared=shared)
    whole.run(progress=False)
    first = trainer(config, shared=shared)
    first.step()
    first.step()
    save(tmp_path / "run.pt", first)
    second = trainer(config, shared=shared, seed=0)
    second.generator.manual_seed(99)  # whatever the new process has drawn
    resume(tmp_path / "run.pt", second)
    second.run(progress=False)
    assert numbers(second.history) == numbers(whole.history)
    for name, tensor in whole.policy.state_dict().items():
        assert torch.equal(tensor, second.policy.state_dict()[name]), name
    if not shared:
        for name, tensor in whole.value.state_dict().items():
            assert torch.equal(tensor, second.value.state_dict()[name]), name
    assert second.controller.coefficient == whole.controller.coefficient != 0.1
    with pytest.raises(ValueError, match="another configuration: clip"):
        resume(tmp_path / "run.pt", trainer(settings(**{**config.__dict__, "clip": 0.3})))
    with pytest.raises(ValueError, match="another arrangement"):
        resume(tmp_path / "run.pt", trainer(config, shared=not shared))


def test_a_run_finds_its_own_checkpoint(tmp_path):
    path = tmp_path / "run.pt"
    trainer().run(progress=False, checkpoint=path, stop=lambda m: m["update"] == 2)
    again = trainer()
    history = again.run(progress=False, checkpoint=path)
    assert len(history) == 4 and numbers(history) == numbers(trainer().run(progress=False))


def test_faulty_set_ups_are_named():
    with pytest.raises(ValueError, match="value is missing"):
        RLHFTrainer(
            model(), VOCABULARY, QUESTIONS, words, settings(),
            reference=model(), generator=generator(),
        )  # fmt: skip
    with pytest.raises(ValueError, match="own value head"):
        RLHFTrainer(
            SharedActorCritic(model()), VOCABULARY, QUESTIONS, words, settings(),
            reference=model(), value=ScalarModel.from_causal(model()), generator=generator(),
        )  # fmt: skip
    with pytest.raises(ValueError, match=r"\['kl'\] are names of the trainer's own"):
        trainer(monitors={"kl": words})
    with pytest.raises(ValueError, match="policy: all parameters are frozen"):
        RLHFTrainer(
            model().requires_grad_(False), VOCABULARY, QUESTIONS, words, settings(),
            reference=model(), value=ScalarModel.from_causal(model()), generator=generator(),
        )  # fmt: skip
    dropping = model().train()
    dropping.config.attention_dropout = 0.1
    with pytest.raises(ValueError, match="dropout is on"):
        RLHFTrainer(
            dropping, VOCABULARY, QUESTIONS, words, settings(),
            reference=model(), value=ScalarModel.from_causal(model()), generator=generator(),
        )  # fmt: skip


def test_a_reward_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="rewards must be finite"):
        trainer(reward_fn=lambda p, c: [math.inf] * len(c)).step()


# --- judging


def test_evaluation_and_samples_agree_with_the_models():
    policy, reference = model(2), model(3)
    rewards = {"gold": gold_reward, "words": words}
    asked = all_questions(True)
    sizes = {"max_new_tokens": 9, "seed": 4}
    result = evaluate(policy, reference, VOCABULARY, asked, rewards, samples=1, **sizes)
    rows = sample_table(policy, reference, VOCABULARY, asked, rewards, **sizes)
    assert result["gold"] == pytest.approx(sum(r.scores["gold"] for r in rows) / len(rows))
    assert result["kl"] == pytest.approx(sum(sum(r.kl) for r in rows) / len(rows), abs=1e-5)
    for row in rows:
        assert len(row.kl) == len(row.tokens) == row.completion.length
        shown = [word for word in row.tokens if word != "<eos>" and word]
        assert " ".join(shown) == row.completion.text
    same = evaluate(policy, policy, VOCABULARY, asked, rewards, samples=2, **sizes)
    assert same["kl"] == 0.0
