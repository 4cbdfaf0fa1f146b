import copy
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nbkit.baselines import batch_mean_baseline, leave_one_out_baseline
from nbkit.rewards.text import (
    contains_keyword,
    keyword_count,
    sentiment,
    sentiment_of_distinct_words,
)
from nbkit.text.environment import TextEnv
from nbkit.text.metrics import distinct_n, distinct_words, judge, perplexity
from nbkit.text.policies import make_policy
from nbkit.text.rollouts import rollout
from nbkit.text.vocabulary import encode_batch
from nbkit.trainers import checkpoint
from nbkit.trainers.pretraining import pretrain
from nbkit.trainers.reinforce import (
    ReinforceConfig,
    ReinforceTrainer,
    reinforce_loss,
    reinforce_weights,
    train,
)
from tests.text.conftest import generator

pytestmark = pytest.mark.chapter(11)


def loop_weights(rewards, mask, weight, baseline, gamma):
    """Plain Python, one episode and one step at a time."""
    rows, steps = mask.shape
    returns = [[0.0] * steps for _ in range(rows)]
    for i in range(rows):
        ahead = 0.0
        for t in reversed(range(steps)):
            if mask[i, t]:
                ahead = rewards[i, t].item() + gamma * ahead
                returns[i][t] = ahead
        if weight == "return":
            returns[i] = [returns[i][0] if mask[i, t] else 0.0 for t in range(steps)]
    weights = [[0.0] * steps for _ in range(rows)]
    for i in range(rows):
        for t in range(steps):
            if not mask[i, t]:
                continue
            reached = [returns[j][t] for j in range(rows) if mask[j, t]]
            others = [returns[j][t] for j in range(rows) if mask[j, t] and j != i]
            value = {
                "none": 0.0,
                "batch-mean": sum(reached) / len(reached),
                "leave-one-out": sum(others) / len(others) if others else 0.0,
            }[baseline]
            weights[i][t] = returns[i][t] - value
    return torch.tensor(weights)


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    weight=st.sampled_from(["return", "reward-to-go"]),
    baseline=st.sampled_from(["none", "batch-mean", "leave-one-out"]),
    gamma=st.sampled_from([1.0, 0.9, 0.0]),
    seed=st.integers(0, 1000),
)
def test_weights_equal_plain_loops(lengths, weight, baseline, gamma, seed):
    mask = torch.arange(6)[None] < torch.tensor(lengths)[:, None]
    rewards = torch.randn(len(lengths), 6, generator=generator(seed)) * mask
    weights = reinforce_weights(rewards, mask, weight=weight, baseline=baseline, gamma=gamma)
    torch.testing.assert_close(weights, loop_weights(rewards, mask, weight, baseline, gamma))


def test_leave_one_out_is_unbiased_and_the_batch_mean_shrinks_by_n_minus_1_over_n():
    """Exact expectation over all batches of two one-token texts, rewards 1 and 0."""
    scores = torch.tensor([0.3, -0.2], requires_grad=True)
    p = scores.softmax(-1)
    rewards = torch.tensor([1.0, 0.0])
    (exact,) = torch.autograd.grad((p * rewards).sum(), scores, retain_graph=True)
    logp = scores.log_softmax(-1)
    mean = {"leave-one-out": torch.zeros(2), "batch-mean": torch.zeros(2)}
    for i in range(2):
        for j in range(2):
            batch, mask = rewards[[i, j]][:, None], torch.ones(2, 1, dtype=torch.bool)
            for name in mean:
                weights = reinforce_weights(batch, mask, weight="reward-to-go", baseline=name)
                loss = reinforce_loss(logp[[i, j]][:, None], weights, mask)
                (gradient,) = torch.autograd.grad(-loss, scores, retain_graph=True)
                mean[name] += (p[i] * p[j]).detach() * gradient
    torch.testing.assert_close(mean["leave-one-out"], exact)
    torch.testing.assert_close(mean["batch-mean"], exact / 2)


def test_baselines_leave_unsampled_positions_at_zero():
    returns = torch.tensor([[1.0, torch.nan], [3.0, 5.0]])
    mask = torch.tensor([[True, False], [True, True]])
    assert leave_one_out_baseline(returns, mask).tolist() == [[3.0, 0.0], [1.0, 0.0]]
    assert batch_mean_baseline(returns, mask).tolist() == [[2.0, 0.0], [2.0, 5.0]]


@pytest.fixture
def world(vocabulary):
    """A policy over four letters that writes at random, and an environment that likes 'b'."""
    torch.manual_seed(0)
    policy = make_policy("lstm", len(vocabulary), width=16)
    return policy, TextEnv(vocabulary, contains_keyword("b"), max_new_tokens=6)


def keyword_rate(policy, env):
    batch = rollout(policy, env, 256, generator=generator(99))
    return (batch.returns > 0).float().mean().item()


@pytest.mark.parametrize("baseline", ["batch-mean", "leave-one-out"])
def test_training_learns_and_is_reproducible(world, baseline):
    policy, env = world
    twin = copy.deepcopy(policy)
    config = ReinforceConfig(updates=25, batch_size=64, learning_rate=2e-2, baseline=baseline)
    before = keyword_rate(policy, env)
    history = train(policy, env, config, progress=False)
    assert before < 0.4 and keyword_rate(policy, env) > 0.9
    assert history == train(twin, env, config, progress=False)


def test_a_flipped_sign_unlearns(world):
    """The same loop with the reward negated must go the other way: the test above can fail."""
    policy, env = world
    against = TextEnv(env.vocabulary, lambda text: -1.0 if "b" in text else 1.0, max_new_tokens=6)
    before = keyword_rate(policy, env)
    config = ReinforceConfig(updates=25, batch_size=64, learning_rate=2e-2)
    train(policy, against, config, progress=False)
    assert keyword_rate(policy, env) < before / 2


def test_the_kl_term_holds_the_policy_near_its_reference(world):
    policy, env = world
    free, held = copy.deepcopy(policy), copy.deepcopy(policy)
    config = ReinforceConfig(updates=25, batch_size=64, learning_rate=2e-2)
    wandered = train(free, env, config, reference=policy, progress=False)[-1]["kl"]
    config = ReinforceConfig(updates=25, batch_size=64, learning_rate=2e-2, kl_coefficient=1.0)
    stayed = train(held, env, config, reference=policy, progress=False)[-1]["kl"]
    assert stayed < wandered / 4
    with pytest.raises(ValueError, match="reference"):
        train(held, env, config, progress=False)


def test_a_stopped_run_goes_on_to_the_same_weights(world, tmp_path):
    """The one loop of all trainers saves and resumes this one too."""
    policy, env = world
    config, path = ReinforceConfig(updates=4, batch_size=8), tmp_path / "run.pt"
    whole, half, rest = (copy.deepcopy(policy) for _ in range(3))
    unbroken = train(whole, env, config, reference=policy, progress=False)
    first = ReinforceTrainer(half, env, config, reference=policy)
    for _ in range(2):
        first.step()
    checkpoint.save(path, first)
    assert train(rest, env, config, reference=policy, progress=False, checkpoint=path) == unbroken
    assert all(
        torch.equal(a, b) for a, b in zip(whole.parameters(), rest.parameters(), strict=True)
    )
    with pytest.raises(ValueError, match="updates"):
        train(rest, env, replace(config, updates=5), checkpoint=path, progress=False)


def test_a_gradient_that_is_not_finite_ends_the_run(world):
    policy, env = world
    large = {True: 3e38, False: -3e38}  # their sums are beyond float32
    broken = TextEnv(env.vocabulary, lambda text: large["b" in text], max_new_tokens=6)
    with pytest.raises(RuntimeError, match="no step was taken"):
        train(policy, broken, ReinforceConfig(updates=1, batch_size=4), progress=False)


def test_unknown_settings_are_named():
    rewards, mask = torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool)
    with pytest.raises(ValueError, match="weight must be one of"):
        reinforce_weights(rewards, mask, weight="sum", baseline="none")
    with pytest.raises(ValueError, match="baseline must be one of"):
        reinforce_weights(rewards, mask, weight="return", baseline="mean")


def test_pretraining_learns_the_corpus(vocabulary):
    torch.manual_seed(0)
    policy = make_policy("lstm", len(vocabulary), width=16)
    losses = pretrain(
        policy, vocabulary, ["ab.", "ba."], steps=60, learning_rate=3e-2, progress=False
    )
    ids, mask = encode_batch(vocabulary, ["ab.", "ba."])
    # The best model hesitates once, between two texts of four tokens: 2 ** (1 / 4) = 1.189.
    assert losses[0] > 3 and 1.18 < perplexity(policy, ids, mask) < 1.35


def test_distinct_n_by_hand():
    assert distinct_n([[1, 2, 1, 2], [1]], 2) == pytest.approx(2 / 3)
    assert distinct_n(["aa", "ab"], 1) == 0.5
    assert distinct_words(["good, good, good.", "a film."]) == pytest.approx(2 / 3)
    assert distinct_words(["one", ""]) == 0.0
    with pytest.raises(ValueError, match="n: need"):
        distinct_n([[1]], 0)
    with pytest.raises(ValueError, match="rows"):
        distinct_n([[1]], 2)


def test_judge_of_the_base_itself_has_no_kl(world):
    policy, env = world
    batch = rollout(policy, env, 32, generator=generator(1))
    report = judge(batch, env, policy)
    assert report["kl"] == pytest.approx(0.0, abs=1e-4)
    assert report["perplexity"] == pytest.approx(perplexity(policy, batch.ids, batch.mask))


def test_rewards_by_hand():
    assert keyword_count("ab")("abab b") == 2
    assert contains_keyword("great")("a great film.") == 1
    assert contains_keyword("great")("grea") == -1
    # VADER's own arithmetic: valence 3.1 for "great", s / sqrt(s^2 + 15).
    for n in (1, 2, 3):
        expected = 3.1 * n / ((3.1 * n) ** 2 + 15) ** 0.5
        assert sentiment(" ".join(["great"] * n)) == pytest.approx(expected, abs=1e-3)
    assert sentiment_of_distinct_words("great, great great.") == pytest.approx(sentiment("great,"))


def test_shapes_that_would_broadcast_are_refused(world):
    policy, env = world
    square = torch.ones(3, 3, dtype=torch.bool)
    for baseline in (leave_one_out_baseline, batch_mean_baseline):
        with pytest.raises(ValueError, match="returns must have 2"):
            baseline(torch.randn(3), square)
        with pytest.raises(ValueError, match="mask must have the shape"):
            baseline(torch.randn(3, 3), square[0])
    with pytest.raises(ValueError, match="rewards must have 2"):
        reinforce_weights(torch.randn(3), square, weight="return", baseline="none")
    batch = rollout(policy, env, 4, generator=generator())
    with pytest.raises(ValueError, match=r"batch\.logprobs must have the shape"):
        judge(replace(batch, logprobs=batch.logprobs[:, :1]), env, policy)
    ones = torch.ones(2, 3)
    weights = reinforce_weights(ones, ones, weight="reward-to-go", baseline="none")
    assert weights.tolist() == [[3, 2, 1], [3, 2, 1]]  # a 0/1 mask of floats is a mask


@pytest.mark.parametrize(
    "change",
    [{"updates": 0}, {"batch_size": 0}, {"learning_rate": 0}, {"gamma": 2}, {"weight": "sum"}],
)
def test_settings_out_of_range_are_refused(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        ReinforceConfig(**change)


def test_a_frozen_policy_and_a_foreign_vocabulary_are_refused(world):
    policy, env = world
    frozen = copy.deepcopy(policy).requires_grad_(False)
    with pytest.raises(ValueError, match="policy: all parameters are frozen"):
        train(frozen, env, ReinforceConfig(), progress=False)
    with pytest.raises(ValueError, match="policy: it scores 10 tokens"):
        rollout(make_policy("lstm", 10, width=8), env, 2, generator=generator())
    with pytest.raises(ValueError, match="batch_size"):
        rollout(policy, env, 0, generator=generator())
    with pytest.raises(ValueError, match="actions: ids"):
        env.reset(1)
        env.step(torch.tensor([len(env.vocabulary)]))
    with pytest.raises(ValueError, match="actions must hold integers"):
        env.step(torch.tensor([1.0]))
    broken = TextEnv(env.vocabulary, lambda text: float("nan"), max_new_tokens=2)
    with pytest.raises(ValueError, match="reward: nan for the text"):
        rollout(policy, broken, 2, generator=generator())
