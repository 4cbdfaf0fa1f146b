"""The price of a nat, by hand."""

import math

import pytest

from nbkit.trainers.kl_controller import AdaptiveKL, FixedKL
from nbkit.trainers.rlhf.config import RLHFConfig

pytestmark = pytest.mark.chapter(21)


def test_by_hand():
    """Ziegler et al.: target 6, horizon 1000, 100 sequences; a KL of 7 is 1/6 too much."""
    controller = AdaptiveKL(0.1, target=6.0, horizon=1000.0)
    controller.update(7.0, 100)
    assert controller.coefficient == pytest.approx(0.1 * (1 + (7 / 6 - 1) * 100 / 1000))
    controller = AdaptiveKL(0.1, target=6.0, horizon=1000.0)
    controller.update(60.0, 100)  # the error is clipped at 0.2
    assert controller.coefficient == pytest.approx(0.1 * 1.02)
    controller.update(0.0, 100)
    assert controller.coefficient == pytest.approx(0.1 * 1.02 * 0.98)


def test_at_the_target_nothing_moves_and_a_horizon_is_about_exp_of_the_limit():
    controller = AdaptiveKL(0.1, target=5.0, horizon=1e6)
    controller.update(5.0, 64)
    assert controller.coefficient == 0.1
    for _ in range(1000):
        controller.update(50.0, 1000)
    assert controller.coefficient == pytest.approx(0.1 * math.exp(0.2), rel=1e-4)


def test_a_price_never_turns_negative():
    """The factor 1 - 0.2 n / horizon of a large batch would pay for divergence."""
    controller = AdaptiveKL(0.1, target=6.0, horizon=200.0)
    controller.update(0.0, 999)
    assert 0 < controller.coefficient < 0.1
    with pytest.raises(ValueError, match=r"batch has 1024: .* horizon above 204\.8"):
        controller.update(0.0, 1024)


def test_negative_estimates_are_legitimate():
    controller = AdaptiveKL(0.1, target=5.0, horizon=100.0)
    controller.update(-3.0, 10)
    assert controller.coefficient == pytest.approx(0.1 * 0.98)


def test_the_fixed_price_stays_and_both_can_be_resumed():
    fixed = FixedKL(0.05)
    fixed.update(1e9, 64)
    assert fixed.coefficient == 0.05
    first, second = AdaptiveKL(0.1, 3.0, 100.0), AdaptiveKL(0.1, 3.0, 100.0)
    first.update(9.0, 32)
    second.load_state_dict(first.state_dict())
    assert second.coefficient == first.coefficient != 0.1


def test_settings_are_checked():
    with pytest.raises(ValueError, match="coefficient must lie in"):
        AdaptiveKL(0.0, 3.0, 100.0)
    with pytest.raises(ValueError, match="must begin above 0"):
        RLHFConfig(kl_coefficient=0.0, kl_target=3.0)
    assert isinstance(RLHFConfig(kl_target=3.0).controller(), AdaptiveKL)
    with pytest.raises(ValueError, match="only 4 completions"):
        RLHFConfig(prompts=4, minibatches=5)
    config = RLHFConfig(updates=10, warmup=2, decay=True)
    assert [config.rate_factor(i) for i in (0, 1, 5)] == pytest.approx([0.5, 0.9, 0.5])
