"""The squashed Gaussian against numerical integration and against torch's own."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from torch.distributions import Normal, TanhTransform, TransformedDistribution

from nbkit.control.actor_critic import DiagonalGaussian
from nbkit.control.environments import VectorEnvAdapter, make_control_env
from nbkit.control.squashed import SquashActions, SquashedGaussian, log_slope
from nbkit.envs.reach import VectorReach

pytestmark = pytest.mark.chapter(41)
MEAN, LOG_STD = torch.tensor([[0.3, -1.2]]), torch.tensor([-0.4, 0.2])


def test_the_density_integrates_to_one():
    a = torch.linspace(-1 + 1e-6, 1 - 1e-6, 400_001, dtype=torch.float64)
    one = SquashedGaussian(torch.full((len(a), 1), 0.3, dtype=torch.float64), torch.tensor([-0.4]))
    density = one.log_prob(torch.atanh(a)[:, None]).exp()
    assert torch.trapezoid(density, a).item() == pytest.approx(1.0, abs=1e-4)


def test_it_agrees_with_torch_and_stays_finite_far_out():
    u = torch.tensor([[0.7, -2.0], [1.0, 1.0]])
    theirs = TransformedDistribution(Normal(MEAN, LOG_STD.exp()), [TanhTransform()])
    expected = theirs.log_prob(u.tanh()).sum(-1)
    assert torch.allclose(SquashedGaussian(MEAN, LOG_STD).log_prob(u), expected, atol=1e-4)
    far = torch.tensor([30.0, -30.0, 0.0])
    assert torch.allclose(log_slope(far), torch.tensor([math.log(4) - 60, math.log(4) - 60, 0.0]))


def test_the_correction_cancels_in_the_ratio():
    u = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    moved = MEAN + 0.2
    plain = DiagonalGaussian(moved, LOG_STD).log_prob(u) - DiagonalGaussian(MEAN, LOG_STD).log_prob(
        u
    )
    ours = SquashedGaussian(moved, LOG_STD).log_prob(u) - SquashedGaussian(MEAN, LOG_STD).log_prob(
        u
    )
    assert torch.allclose(plain, ours, atol=1e-5)


def test_entropy_is_minus_the_mean_log_density_and_has_a_gradient():
    mean, log_std = MEAN.clone().requires_grad_(), LOG_STD.clone().requires_grad_()
    entropy = SquashedGaussian(mean, log_std).entropy()
    many = SquashedGaussian(MEAN.expand(400_000, 2), LOG_STD)
    u = many.sample(torch.Generator().manual_seed(1))
    assert entropy.item() == pytest.approx(-many.log_prob(u).mean().item(), abs=0.01)
    assert entropy.item() < 2 * math.log(2)
    entropy.sum().backward()
    assert mean.grad.abs().min() > 0 and log_std.grad.abs().min() > 0


@pytest.mark.parametrize(
    ("sigma", "within"),
    [(0.6, 3e-6), (1.0, 2e-5), (1.01, 1e-5), (8.0, 1e-5), (12.0, 1e-4), (20.0, 1e-3)],
)
def test_the_entropy_is_as_right_as_it_says(sigma, within):
    def slope_times_density(z: float, mean: float) -> float:
        u = mean + sigma * z
        slope = 2 * (math.log(2) - u - np.logaddexp(0.0, -2 * u))
        return slope * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    for mean in np.linspace(-2 * sigma - 1, 2 * sigma + 1, 9):
        expected, _ = quad(
            slope_times_density, -12, 12, (mean,), points=[-mean / sigma], limit=500, epsabs=1e-10
        )
        expected += math.log(sigma) + 0.5 * math.log(2 * math.pi * math.e)
        row = torch.tensor([[mean]], dtype=torch.float64)
        ours = SquashedGaussian(row, torch.tensor([sigma], dtype=torch.float64).log()).entropy()
        assert ours.item() == pytest.approx(expected, abs=within)


def test_the_wrapper_squashes_and_scales():
    env = SquashActions(make_control_env("Pendulum-v1", 3))
    seen = []
    inner = env.env.step
    env.env.step = lambda actions: seen.append(actions) or inner(actions)
    env.reset(0)
    u = torch.tensor([[0.0], [100.0], [-0.5]])
    env.step(u)
    assert torch.allclose(seen[0], 2 * u.tanh())
    assert not env.action_space.is_bounded()  # nothing is left to clip


def test_it_refuses_what_has_no_bounds():
    with pytest.raises(ValueError, match="finite bounds"):
        SquashActions(make_control_env("CartPole-v1", 1))
    with pytest.raises(ValueError, match="finite bounds"):
        SquashActions(SquashActions(VectorEnvAdapter(VectorReach(1))))


def test_samples_follow_the_generator():
    a, b = (
        SquashedGaussian(MEAN, LOG_STD).sample(torch.Generator().manual_seed(4)) for _ in range(2)
    )
    assert torch.equal(a, b) and np.isfinite(a.numpy()).all()
