"""Fourteen faults that users of the field's libraries reported, each with its numbers.

For each: the right value, and the value that the fault gives, which is computed here by committing
the fault, so that a fingerprint is a fact and not a remark. The threads are named with each test.
"""

import numpy as np
import pytest
import torch
from tensor_values import differs, f64, gradient, ints, same
from torch import Tensor

from nbkit.advantages import gae, group_advantages, token_gae, whiten
from nbkit.kl import kl_estimate, kl_exact
from nbkit.logprobs import next_token_logprobs, token_logprobs
from nbkit.losses import policy_gradient_loss, ppo_clip_loss, preference_loss
from nbkit.masks import (
    aggregate,
    completion_mask,
    last_token_index,
    masked_mean,
    place_sequence_reward,
    position_ids,
)


class TestD01:
    """DLR-RM/stable-baselines3 #633, #651, #1864; vwxyzjn/cleanrl #198, PR #311, PR #448;
    Toni-SM/skrl #449; RoboVerse PR #814; jsboige/CoursIA PR #7825."""

    rewards, values = f64([1, 1, 1, 1]), f64([10, 11, 12, 13])
    truncated = ints([0, 1, 0, 0])

    def run(self, next_values: Tensor, terminated: Tensor, done: Tensor) -> tuple[Tensor, Tensor]:
        return gae(self.rewards, self.values, next_values, terminated, done, gamma=0.9, lam=0.8)

    def test_d01_truncation_bootstraps_from_the_final_observation(self) -> None:
        advantages, returns = self.run(f64([11, 20, 13, 14]), ints([0] * 4), self.truncated)
        same(advantages, [6.66, 8, 1.132, 0.6])
        same(returns, [16.66, 19, 13.132, 13.6])

    def test_d01_wrong_truncation_as_death(self) -> None:
        wrong, _ = self.run(f64([11, 20, 13, 14]), self.truncated, self.truncated)
        same(wrong, [-6.3, -10, 1.132, 0.6])

    def test_d01_wrong_boundary_ignored(self) -> None:
        wrong, _ = self.run(f64([11, 12, 13, 14]), ints([0] * 4), ints([0] * 4))
        same(wrong[:2], [2.0628288, 1.61504])

    def test_d01_wrong_bootstrap_from_the_reset_observation(self) -> None:
        wrong, _ = self.run(f64([11, 12, 13, 14]), ints([0] * 4), self.truncated)
        same(wrong[:2], [1.476, 0.8])

    def test_d01_wrong_bootstrap_from_the_state_acted_on(self) -> None:
        wrong, _ = self.run(f64([11, 11, 13, 14]), ints([0] * 4), self.truncated)
        same(wrong[:2], [0.828, -0.1])

    def test_d01_terminated_mask_at_its_own_step(self) -> None:
        rewards, values, next_values = f64([1, 1, 1]), f64([5, 5, 100]), f64([5, 100, 101])
        at, shifted = ints([0, 1, 0]), ints([1, 0, 0])
        right, _ = gae(rewards, values, next_values, at, at, gamma=0.99, lam=0.95)
        same(right, [-2.812, -4, 0.99])
        wrong, _ = gae(rewards, values, next_values, shifted, shifted, gamma=0.99, lam=0.95)
        same(wrong, [-4, 95.931095, 0.99])

    def test_d01_a_truncation_passed_as_done_alone_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"done must be True wherever terminated is.*\(4,\)"):
            self.run(f64([11, 20, 13, 14]), ints([0, 1, 0, 0]), ints([0, 0, 0, 0]))


class TestD02:
    """vwxyzjn/cleanrl #475, #499, PR #576; rl_games PR #362; automl/Mighty #108;
    Farama-Foundation/Gymnasium #1017, PR #1624."""

    rewards, values = f64([1, 1, 0, 1, 1]), f64([1, 2, 9, 3, 4])
    next_values, ends, valid = f64([2, 9, 3, 4, 5]), ints([0, 1, 0, 0, 0]), ints([1, 1, 0, 1, 1])

    def test_d02_the_dummy_row_after_a_reset_is_skipped(self) -> None:
        advantages, returns = gae(
            self.rewards, self.values, self.next_values, self.ends, self.ends,
            gamma=0.9, lam=0.8, valid=self.valid,
        )  # fmt: skip
        same(advantages, [1.08, -1, 0, 2.68, 1.5])
        same(returns, [2.08, 1, 0, 5.68, 5.5])
        same(
            whiten(advantages, self.valid),
            [0.0097766733, -1.345922021, 0, 1.0526218227, 0.283523525],
        )

    def test_d02_wrong_dummy_row_kept(self) -> None:
        wrong, _ = gae(
            self.rewards, self.values, self.next_values, self.ends, self.ends, gamma=0.9, lam=0.8
        )
        same(wrong[2], -4.3704)
        same(whiten(wrong), [0.3978, -0.3530, -1.5697, 0.9754, 0.5494], atol=1e-4)

    def test_d02_truncated_at_row_one_bootstraps(self) -> None:
        advantages, _ = gae(
            self.rewards, self.values, self.next_values, ints([0] * 5), self.ends,
            gamma=0.9, lam=0.8, valid=self.valid,
        )  # fmt: skip
        same(advantages, [6.912, 7.1, 0, 2.68, 1.5])

    def test_d02_garbage_in_the_dummy_row_goes_nowhere(self) -> None:
        rewards, values, next_values = (
            x.index_fill(0, ints([2]), float("nan"))
            for x in (self.rewards, self.values, self.next_values)
        )
        advantages, returns = gae(
            rewards, values, next_values, self.ends, self.ends, gamma=0.9, lam=0.8, valid=self.valid
        )
        same(advantages, [1.08, -1, 0, 2.68, 1.5])
        same(returns, [2.08, 1, 0, 5.68, 5.5])


class TestD03:
    """SB3 #265, #325, #440, PR #1028; axolotl PR #3353; NVIDIA-NeMo/RL #1518, PR #1519;
    TRL PR #5640, PR #7068."""

    def test_d03_one_value(self) -> None:
        same(whiten(f64([3.7])), [0])
        same(whiten(f64([3.7]), singleton="keep"), [3.7])  # SB3 leaves it
        naive = f64([3.7]).numpy()
        with np.errstate(invalid="ignore"), pytest.warns(RuntimeWarning):
            assert np.isnan((naive - naive.mean()) / naive.std(ddof=1)).all()  # the fault

    @pytest.mark.parametrize("baseline", ["mean", "leave-one-out"])
    @pytest.mark.parametrize("scale", ["std", "batch", None])
    @pytest.mark.parametrize("eps", [1e-4, 0.0])
    def test_d03_equal_rewards_give_exactly_zero(
        self, baseline: str, scale: str | None, eps: float
    ) -> None:
        for dtype in (torch.float32, torch.float64):
            equal = torch.full((8,), 0.1, dtype=dtype)
            result = group_advantages(equal, 4, baseline=baseline, scale=scale, eps=eps)
            assert torch.equal(result, torch.zeros(8, dtype=dtype))

    def test_d03_a_group_of_one(self) -> None:
        same(group_advantages(f64([5.0]), 1), [0])
        same(group_advantages(f64([5.0]), 1, singleton="keep"), [5.0])  # the loop of verl

    def test_d03_equal_groups_keep_their_kl_term(self) -> None:
        logp, ref = f64([[-1.0, -2.0]]), f64([[-1.5, -1.0]])
        advantages = group_advantages(f64([1.0, 1.0, 1.0, 1.0]), 4)[:1, None]

        def loss(logp: Tensor) -> Tensor:
            return policy_gradient_loss(logp, advantages) + kl_estimate(logp, ref, "k2")

        same(gradient(lambda x: policy_gradient_loss(x, advantages), logp), [[0, 0]])
        same(gradient(loss, logp), logp - ref)

    def test_d03_seven_equal_float32_values(self) -> None:
        x = torch.full((7,), 0.1)
        assert torch.equal(whiten(x), torch.zeros(7))
        assert torch.equal(whiten(x, center=False), x)
        values = x.numpy()
        naive = (values - values.mean()) / (values.std(ddof=1) + 1e-8)
        same(torch.from_numpy(naive), [-0.4128] * 7, atol=1e-4)

    def test_d03_leave_one_out_std_of_the_others(self) -> None:
        rewards = f64([1, 0, 0, 0])
        scaled = group_advantages(rewards, 4, baseline="leave-one-out", eps=0.0)
        same(scaled, [1, -0.5773503, -0.5773503, -0.5773503], atol=1e-7)
        plain = group_advantages(rewards, 4, baseline="leave-one-out", scale=None)
        same(plain, [1, -1 / 3, -1 / 3, -1 / 3])
        others = rewards[1:]
        same((rewards[0] - others.mean()) / (others.std() + 1e-6), 1e6)  # the fault


class TestD04:
    """SkyRL PR #925, #1296; verl #5625, PRs #5641, #5877, #7321; NeMo RL #212."""

    def test_d04_micro_batches_sum_to_the_token_mean(self) -> None:
        parts = [torch.full((1, 100), 0.5), torch.full((3, 300), 0.3)]
        whole = sum(aggregate(p.double(), None, "token-mean", total_tokens=1000) for p in parts)
        same(whole, 0.32, atol=1e-7)
        mean_of_means = sum(aggregate(p.double(), None, "token-mean") for p in parts) / 2
        same(mean_of_means, 0.40, atol=1e-7)


class TestD05:
    """huggingface/transformers #34242, #34191; prime-rl PR #2359; torchtitan PR #2206."""

    ranks = (f64([[1.0, 1.0]]), f64([[4.0]]))

    def gradients(self, world_size: int, total_tokens: int | None) -> Tensor:
        def local(x: Tensor) -> Tensor:
            weight = f64(1.0, requires_grad=True)
            loss = aggregate(weight * x, None, "token-mean", total_tokens=total_tokens)
            return torch.autograd.grad(loss * world_size, weight)[0]

        return torch.stack([local(x) for x in self.ranks]).mean()  # what DDP does

    def test_d05_global_count_times_world_size(self) -> None:
        same(self.gradients(world_size=2, total_tokens=3), 2.0)

    def test_d05_wrong_average_of_local_means(self) -> None:
        same(self.gradients(world_size=1, total_tokens=None), 2.5)


class TestD06:
    """TRL #6369, PR #6439, PR #3248."""

    per_token = torch.ones(2, 6, dtype=torch.float64)
    lengths = ints([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])

    def test_d06_a_row_masked_out_leaves_the_denominator(self) -> None:
        kept = self.lengths * ints([[1], [0]])
        same(aggregate(self.per_token, kept, "token-mean"), 1.0)
        same((self.per_token * kept).sum() / self.lengths.sum(), 0.4)  # the fault

    @pytest.mark.parametrize(
        "mode",
        ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"],
    )
    @pytest.mark.parametrize("empty_rows", ["count", "exclude"])
    def test_d06_everything_masked(self, mode: str, empty_rows: str) -> None:
        none = torch.zeros(2, 6)

        def loss(x: Tensor) -> Tensor:
            return aggregate(x, none, mode, max_tokens=6, empty_rows=empty_rows)

        assert loss(self.per_token).item() == 0.0
        assert torch.equal(gradient(loss, self.per_token), torch.zeros(2, 6, dtype=torch.float64))


class TestD07:
    """TRL #2022, #2281, #2496, PR #6121 (sentinels); #235, #417 (negative KL)."""

    def test_d07_sentinels_stored_at_pads(self) -> None:
        logp, mask = f64([[-0.5, -0.7, 1.0, 1.0, 1.0]]), ints([[1, 1, 0, 0, 0]])
        same(aggregate(-logp, mask, "seq-mean-token-sum"), 1.2)
        same(-logp.sum(), -1.8)  # the fault

    def test_d07_negative_kl_is_legitimate(self) -> None:
        logp, ref = f64([-2, -1]), f64([-1, -1.5])
        k1, k2, k3 = (kl_estimate(logp, ref, kind) for kind in ("k1", "k2", "k3"))
        same(k1, [-1, 0.5])
        same(k1.mean(), -0.25)
        same(k2.mean(), 0.3125)
        same(k3, [0.7182818285, 0.1065306597])
        same(k3.mean(), 0.4124062441)
        assert (k2 >= 0).all()
        assert (k3 >= 0).all()


class TestD08:
    """huggingface/transformers #23530; TRL #976."""

    ids, attention = ints([[5, 6, 2, 2, 2]]), ints([[1, 1, 1, 0, 0]])

    @pytest.mark.parametrize("with_attention", [True, False])
    def test_d08_the_real_eos_survives_padding_with_the_same_id(self, with_attention: bool) -> None:
        attention = self.attention if with_attention else None
        mask, truncated = completion_mask(self.ids, 2, attention=attention)
        assert torch.where(mask, self.ids, -100).tolist() == [[5, 6, 2, -100, -100]]
        assert truncated.tolist() == [False]

    def test_d08_wrong_mask_by_id(self) -> None:
        wrong = torch.where(self.ids != 2, self.ids, -100)
        assert wrong.tolist() == [[5, 6, -100, -100, -100]]

    def test_d08_several_eos_ids_and_truncation(self) -> None:
        ids = ints([[5, 9, 7, 2], [5, 6, 7, 8], [2, 5, 5, 5]])
        mask, truncated = completion_mask(ids, [2, 9])
        assert mask.tolist() == [[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]]
        assert truncated.tolist() == [False, True, False]


class TestD09:
    """huggingface/transformers #35352; TRL #3750."""

    def test_d09_last_real_token_by_position(self) -> None:
        ids = ints([[7, 2, 8, 9, 2, 2, 2]])
        assert last_token_index(ints([[1, 1, 1, 1, 1, 0, 0]])).tolist() == [4]
        assert (ids[0] == 2).int().argmax().item() - 1 == 0  # the fault: first pad by id, less one
        assert last_token_index(ints([[0, 0, 1, 1, 1]])).tolist() == [4]  # left-padded

    def test_d09_the_reward_stands_on_the_eos(self) -> None:
        mask, _ = completion_mask(ints([[5, 6, 2, 0, 0]]), 2)
        same(place_sequence_reward(f64([7]), mask), [[0, 0, 7, 0, 0]])
        same(place_sequence_reward(f64([7]), mask, at="after"), [[0, 0, 0, 7, 0]])  # TRL's PPO

    def test_d09_rows_without_a_token(self) -> None:
        mask = ints([[0, 0, 0, 0]])
        assert last_token_index(mask).tolist() == [-1]
        same(place_sequence_reward(f64([7]), mask), [[0, 0, 0, 0]])
        last = place_sequence_reward(f64([7]), mask, empty_rows="last-column")  # OpenRLHF
        same(last, [[0, 0, 0, 7]])


class TestD10:
    """TRL #3681; mlx-lm-lora #80; prime-rl PR #1525."""

    logits = f64([[[0, 1, 0, 0], [0, 0, 2, 0], [0, 0, 0, 3], [4, 0, 0, 0]]])
    ids, mask = ints([[3, 1, 2, 3]]), ints([[0, 0, 1, 1]])

    def test_d10_logits_score_the_next_token_and_the_mask_moves_with_them(self) -> None:
        logp = next_token_logprobs(self.logits, self.ids)
        same(logp, [[-0.7436683806, -0.3407529539, -0.1392063142]])
        same(masked_mean(logp, self.mask[:, 1:]) * 2, -0.4799592681)
        by_mask = next_token_logprobs(self.logits, self.ids, mask=self.mask)
        same(by_mask, [[0, -0.3407529539, -0.1392063142]])

    def test_d10_wrong_mask_not_shifted(self) -> None:
        logp = next_token_logprobs(self.logits, self.ids)
        same((logp * self.mask[:, :-1]).sum(), -0.1392063142)

    def test_d10_wrong_logits_not_shifted(self) -> None:
        wrong = token_logprobs(self.logits, self.ids)
        same((wrong * self.mask).sum(), -7.1926967639)


class TestD11:
    """OpenRLHF #217, PR #218; TRL #6800, PR #6819, PR #2708. The models: test_padding.py."""

    def test_d11_positions_count_real_tokens(self) -> None:
        positions = position_ids(ints([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 1, 1, 0]]))
        assert positions[0, 2:].tolist() == [0, 1, 2]
        assert positions[1, :3].tolist() == [0, 1, 2]
        assert positions[2, [0, 2, 3]].tolist() == [0, 1, 2]


class TestD12:
    """prime-rl PR #697; TRL PR #3029, #4159."""

    logits, tokens = f64([[2, 1, 0]] * 3), ints([0, 1, 2])

    def test_d12_temperature_divides_the_logits(self) -> None:
        same(
            token_logprobs(self.logits, self.tokens, temperature=0.5),
            [-0.1429316285, -2.1429316285, -4.1429316285],
        )
        same(
            token_logprobs(self.logits, self.tokens, temperature=2.0),
            [-0.6802696706, -1.1802696706, -1.6802696706],
        )

    def test_d12_wrong_logprob_divided(self) -> None:
        wrong = token_logprobs(self.logits, self.tokens) / 0.5
        same(wrong, [-0.8152, -2.8152, -4.8152], atol=1e-4)

    def test_d12_wrong_untempered_makes_a_false_ratio(self) -> None:
        plain = token_logprobs(self.logits, self.tokens)
        same(plain, [-0.4076, -1.4076, -2.4076], atol=1e-4)
        tempered = token_logprobs(self.logits, self.tokens, temperature=0.5)
        same((plain - tempered)[0].exp(), 0.7674558421)


class TestD13:
    """NeMo RL PR #2506; TRL #3025, #4967; allenai/open-instruct #534; verl PR #2953."""

    theta, ref = f64([0, 1, -1]), f64([0.5, 0, 0])
    true_gradient = f64([-0.2331885807, 0.3639891521, -0.1308005713])

    def expected_gradient(
        self, kind: str, *, weighted: bool = False, in_reward: bool = False
    ) -> Tensor:
        """Gradient with the three actions drawn from the policy: exact, so no sampling noise."""

        def loss(theta: Tensor) -> Tensor:
            logp = token_logprobs(theta.expand(3, 3), ints([0, 1, 2]))
            probability = theta.detach().softmax(-1)
            kl = kl_estimate(logp, self.ref.log_softmax(-1), kind)
            if in_reward:
                kl = policy_gradient_loss(logp, -kl.detach())
            if weighted:
                kl = (logp - logp.detach()).exp() * kl
            return (probability * kl).sum()

        return gradient(loss, self.theta)

    def test_d13_exact_kl_and_its_gradient(self) -> None:
        same(kl_exact(self.theta, self.ref), 0.3396169521)
        same(gradient(lambda x: kl_exact(x, self.ref), self.theta), self.true_gradient)

    def test_d13_k1_in_the_loss_has_no_gradient(self) -> None:
        same(self.expected_gradient("k1"), [0, 0, 0])

    def test_d13_k2_in_the_loss_has_the_true_gradient(self) -> None:
        same(self.expected_gradient("k2"), self.true_gradient)

    def test_d13_k3_in_the_loss_has_the_gradient_of_the_reverse(self) -> None:
        wrong = [-0.2071342908, 0.3911723367, -0.1840380459]
        same(self.expected_gradient("k3"), wrong)
        same(wrong_reverse := gradient(lambda x: kl_exact(self.ref, x), self.theta), wrong)
        differs(wrong_reverse, self.true_gradient)

    @pytest.mark.parametrize("kind", ["k1", "k3"])
    def test_d13_weighted_by_the_ratio(self, kind: str) -> None:
        same(self.expected_gradient(kind, weighted=True), self.true_gradient)

    def test_d13_k1_in_the_reward(self) -> None:
        same(self.expected_gradient("k1", in_reward=True), self.true_gradient)

    def test_d13_values(self) -> None:
        logp = self.theta.log_softmax(-1)
        mean = {
            k: (logp.exp() * kl_estimate(logp, self.ref.log_softmax(-1), k)).sum()
            for k in ("k1", "k2", "k3")
        }
        same(mean["k1"], 0.3396169521)
        same(mean["k2"], 0.3633618440)  # biased in value
        same(mean["k3"], 0.3396169521)


class TestD14:
    """TRL PR #1265, #1677; torchtune #1291, PR #1615; ms-swift PR #9925, #10167."""

    zero = f64([0.0])

    def loss(self, chosen: Tensor, rejected: Tensor, **options: object) -> Tensor:
        return preference_loss(chosen, rejected, self.zero, self.zero, beta=0.1, **options)

    def test_d14_ipo_sum_and_average(self) -> None:
        chosen, rejected = f64([6.0]), f64([-2.0])
        same(self.loss(chosen, rejected, kind="ipo"), [9.0])
        counts = {"chosen_tokens": ints([3]), "rejected_tokens": ints([1])}
        same(self.loss(chosen, rejected, kind="ipo-average", **counts), [1.0])
        with pytest.raises(ValueError, match="chosen_tokens"):
            self.loss(chosen, rejected, kind="ipo-average")

    def test_d14_counts_clamp_at_one(self) -> None:
        counts = {"chosen_tokens": ints([0]), "rejected_tokens": ints([0])}
        same(self.loss(f64([6.0]), self.zero, kind="ipo-average", **counts), [1.0])

    @pytest.mark.parametrize(
        ("kind", "value", "slope"),
        [("sigmoid", 0.4374879505, -0.0354343694), ("hinge", 0.4, -0.1), ("ipo", 1.0, 2.0)],
    )
    def test_d14_margin_six(self, kind: str, value: float, slope: float) -> None:
        margin = f64([6.0])
        same(self.loss(margin, self.zero, kind=kind), [value])
        same(gradient(lambda x: self.loss(x, self.zero, kind=kind), margin), [slope])


def test_d12_the_false_ratio_moves_the_clipped_loss() -> None:
    """The consequence of D12: a policy that has not moved looks as if it had."""
    logits, tokens = f64([[[2, 1, 0]]]), ints([[0]])
    new = token_logprobs(logits, tokens)
    old = token_logprobs(logits, tokens, temperature=0.5)
    one = f64([[-1.0]])
    same(ppo_clip_loss(old, old, one), [[1.0]])
    same(ppo_clip_loss(new, old, one), [[0.8]])  # 0.767 clipped: no gradient at all


def test_d09_the_sequence_reward_reaches_every_token_by_gae() -> None:
    """The consequence of D09: with lambda = gamma = 1 each token sees the whole reward."""
    mask = ints([[1, 1, 1, 0]])
    rewards = place_sequence_reward(f64([2.0]), mask)
    advantages, _ = token_gae(rewards, torch.zeros(1, 4).double(), mask, gamma=1.0, lam=1.0)
    same(advantages, [[2, 2, 2, 0]])
