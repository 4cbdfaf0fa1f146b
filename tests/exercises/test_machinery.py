"""The machinery itself must be able to fail: each wrong function meets the right sentence."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from small import edges, oracle, small_exercise, weighted_sum
from torch import Tensor

from bookkit.exercises.bench import Bench
from bookkit.exercises.check import verdict_on
from bookkit.exercises.exercise import Mutant
from bookkit.exercises.oracle import expected_gradients
from bookkit.exercises.proof import prove_exercise
from bookkit.exercises.verdict import CheckResult


def judged(function: Callable[..., Any], seed: int = 1, **changes: Any) -> CheckResult:
    return verdict_on(Bench(small_exercise(**changes), seed), function)


def test_right_function_passes_and_says_what_is_not_tested() -> None:
    result = judged(weighted_sum)
    assert result.passed and bool(result)
    assert "27 cases, 3 of them edges, seed 1" in result.message
    assert "Not tested: speed." in result.message


def test_proof_of_the_small_exercise_holds() -> None:
    assert prove_exercise(small_exercise(), range(1, 6)) == []


def test_zeros_of_the_right_shape() -> None:
    result = judged(lambda x, weights, mask: x.new_zeros(x.shape[0]))
    assert not result.passed
    assert "zero in every failing case" in result.message


def test_right_values_only_without_float64() -> None:
    result = judged(lambda x, w, mask: weighted_sum(x, w, mask).float())
    assert not result.passed
    assert "`total` is float32 although the inputs are float64" in result.message


def test_in_place_change() -> None:
    def function(x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        x.data[~mask] = 0.0
        return weighted_sum(x, weights, mask)

    result = judged(function)
    assert not result.passed
    assert "changed its input `x` in place" in result.message


def test_switching_requires_grad_on_an_input_is_a_change() -> None:
    def function(x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        x.requires_grad_()
        return weighted_sum(x, weights, mask)

    assert "changed its input `x` in place" in judged(function).message


def test_in_place_change_that_autograd_forbids() -> None:
    def function(x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        if x.requires_grad:
            x += 0.0
        return weighted_sum(x, weights, mask)

    result = judged(function)
    assert "with inputs that require gradients it raised RuntimeError" in result.message
    assert "writes into one of its inputs" in result.message


def test_numpy_result() -> None:
    result = judged(lambda x, w, mask: weighted_sum(x, w, mask).detach().numpy())
    assert not result.passed
    assert "not a numpy.ndarray" in result.message


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "is the `return` missing?"),
        (3.0, "not a float (.item() and float() also cut the gradient)"),
        ([1.0], "not a list"),
        (np.float32(1), "not a numpy.float32"),
    ],
)
def test_results_of_a_wrong_type(value: Any, words: str) -> None:
    result = judged(lambda x, weights, mask: value)
    assert not result.passed
    assert words in result.message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s[:, None], "an axis of length 1 is left over"),
        (lambda s: s[:, None] + s[None, :], "broadcast to every pair"),
        (lambda s: s.sum(), "reduced to a single number"),
    ],
)
def test_results_of_a_wrong_shape(change: Callable[[Tensor], Tensor], words: str) -> None:
    result = judged(lambda x, w, mask: change(weighted_sum(x, w, mask)))
    assert not result.passed
    assert "`total` has shape" in result.message
    assert words in result.message.lower()


def test_cut_gradient() -> None:
    result = judged(lambda x, w, mask: weighted_sum(x, w, mask).detach())
    assert "no gradient reaches `x`" in result.message


def test_wrong_gradient_behind_right_values() -> None:
    def function(x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        total = weighted_sum(x, weights, mask)
        return 2 * total - total.detach()

    result = judged(function)
    assert "the gradient that reaches `x` differs" in result.message
    assert "`gradient of x` is 2 times the right answer in every failing case" in result.message


def test_unwanted_gradient_is_named_by_its_mutant() -> None:
    def function(x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        return (x.masked_fill(~mask, 0.0) * weights.masked_fill(~mask, 0.0)).sum(1)

    result = judged(function)
    assert result.mistakes == ("the weights must be constants: detach them",)
    assert "a gradient reaches `weights`, which must act as a constant" in result.message


def test_nan_that_survives_a_product_with_the_mask() -> None:
    result = judged(lambda x, w, mask: (x * w.detach() * mask).sum(1))
    assert "0 · nan is nan" in result.message
    assert "1 of 27 cases fails, the edge “nan under the mask”" in result.message


def test_hanging_function_is_stopped() -> None:
    def function(x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        while True:
            pass

    result = judged(function)  # returns, so it was stopped
    assert not result.passed
    assert "still running when its 1 s of processor time were used up" in result.message
    assert "in function: `" in result.message


def test_hanging_function_that_catches_exceptions_is_stopped() -> None:
    def function(x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        while True:
            try:
                x[99, 99]
            except Exception:
                continue

    assert "still running" in judged(function, time_limit_s=0.3).message


def test_slow_function_is_stopped_by_the_limit_of_the_whole_check() -> None:
    def function(x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
        return weighted_sum(x, weights, mask)

    assert "still running" in judged(function, time_limit_s=0.3).message


def test_exception_names_the_learners_line() -> None:
    def function(x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        return torch.cat([x, weights[0]])  # the line to be named

    result = judged(function)
    assert "It raised RuntimeError" in result.message
    assert "in function: `return torch.cat([x, weights[0]])" in result.message


def test_exit_in_the_learners_code_is_a_verdict() -> None:
    def function(x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        raise SystemExit("done")

    assert "It raised SystemExit: done" in judged(function).message


def test_interrupt_by_the_learner_stops_the_check() -> None:
    def function(x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judged(function)


def test_result_on_another_device() -> None:
    result = judged(lambda x, w, mask: weighted_sum(x, w, mask).to("meta"))
    assert "`total` is on meta, the inputs are on cpu" in result.message


def test_wrong_signature() -> None:
    result = judged(lambda x, weights: x)
    assert "it is called with (x, weights, mask): too many positional arguments" in result.message


def test_stub_that_is_begun_is_not_implemented_yet() -> None:
    def function(x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        if mask.all():
            return weighted_sum(x, weights, mask)
        raise NotImplementedError

    result = judged(function)
    assert not result.passed
    assert result.message.startswith("○ small.sum.1: not implemented yet")


def test_smallest_case_can_be_pasted_back() -> None:
    result = judged(lambda x, w, mask: weighted_sum(x, w, mask) + 1)
    assert "x = torch.tensor([[2.0]])" in result.message
    assert "total, expected: [0.0]" in result.message or "total, expected: [6.0]" in result.message
    assert "first difference at total[0]: expected" in result.message
    assert 'nbkit.check("small.sum.1", <lambda>, seed=1)' in result.message


def test_printing_is_shown_once_for_the_shown_case(capsys: pytest.CaptureFixture[str]) -> None:
    def function(x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        print("shape", tuple(x.shape))
        return weighted_sum(x, weights, mask) + 1

    result = judged(function)
    assert capsys.readouterr().out == ""
    assert result.message.count("shape (1, 1)") == 1


def test_random_state_and_gradient_mode_are_left_alone() -> None:
    def function(x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        torch.rand(3)
        return weighted_sum(x, weights, mask)

    torch.manual_seed(5)
    wanted = torch.rand(2)
    torch.manual_seed(5)
    with torch.no_grad():
        assert judged(function).passed
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.rand(2), wanted)


def test_mistakes_that_explain_parts_are_all_named() -> None:
    def function(x: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
        if x.shape[1] % 2:
            return (x * weights.detach()).sum(1)
        return weighted_sum(x, weights, mask) / x.shape[1]

    mistakes = " | ".join(judged(function).mistakes)
    assert "the mask is never used" in mistakes
    assert "the mean over the columns" in mistakes


def test_finite_differences_agree_with_autograd() -> None:
    exercise = small_exercise()
    for case in edges():
        x = case.inputs["x"].clone().requires_grad_()
        total = weighted_sum(x, case.inputs["weights"], case.inputs["mask"])
        weights = torch.rand(
            total.shape, generator=torch.Generator().manual_seed(12345), dtype=torch.float64
        )
        (wanted,) = torch.autograd.grad((total * (weights + 0.5)).sum(), x)
        torch.testing.assert_close(expected_gradients(exercise, case.inputs)["x"], wanted)


def test_proof_finds_a_wrong_reference() -> None:
    faults = prove_exercise(small_exercise(reference=lambda x, w, mask: -x.sum(1)), [1])
    assert any("the reference fails" in fault for fault in faults)


def test_proof_finds_a_mutant_that_passes_and_twins() -> None:
    message = "a harmless rewriting that is wrongly registered as a mistake"
    harmless = Mutant("harmless", lambda x, w, mask: weighted_sum(x, w, mask), message)
    exercise = small_exercise(mutants=(harmless, Mutant("twin", weighted_sum, message + " too")))
    faults = " ".join(prove_exercise(exercise, [1]))
    assert "mutant 'harmless' passes on seed 1" in faults
    assert "'harmless' and 'twin' cannot be told apart" in faults


def test_proof_finds_a_wrong_oracle() -> None:
    def wrong(x: Any, weights: Any, mask: Any) -> Any:
        return [value + 0.5 for value in oracle(x, weights, mask)]

    assert "the reference fails" in prove_exercise(small_exercise(oracle=wrong), [1])[0]


def test_registration_faults_raise() -> None:
    with pytest.raises(ValueError, match="difficulty 6 is not in 1 to 5"):
        small_exercise(difficulty=6)
    with pytest.raises(ValueError, match="minutes must be at least 1"):
        small_exercise(minutes=0)
    twice = Mutant("same", weighted_sum, "a")
    with pytest.raises(ValueError, match="two mutants are called 'same'"):
        small_exercise(mutants=(twice, twice))
