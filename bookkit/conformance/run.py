"""Ask a library all questions and say what its answers mean."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bookkit.conformance.adapter import Adapter, NotProvided
from bookkit.conformance.case import RAISES, Case, Outcome
from bookkit.conformance.cases import ALL_CASES
from bookkit.conformance.libraries import load_adapter

Status = str  # "right" | "convention" | "wrong" | "unknown" | "error" | "not provided"


@dataclass(frozen=True)
class Finding:
    """The answer of one library to one case.

    status "unknown" is a value that no outcome of the case lists, and "error" an exception other
    than ValueError; both count as failures, like "wrong".
    """

    case: Case
    status: Status
    meaning: str
    value: Any = None

    @property
    def failed(self) -> bool:
        """Whether somebody should look at this."""
        return self.status in ("wrong", "unknown", "error")

    def as_row(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "case": self.case.id,
            "title": self.case.title,
            "source": self.case.source,
            "function": self.case.function,
            "status": self.status,
            "meaning": self.meaning,
            "value": self.value,
        }


def check(library: str | Adapter, cases: tuple[Case, ...] = ALL_CASES) -> list[Finding]:
    """All findings about a library.

    Args:
        library: a name in `LIBRARIES`, "package.module:ClassName", or an adapter.
        cases: the questions.

    Raises:
        ValueError: an unknown name.
        ImportError: the library is not installed.
    """
    adapter = load_adapter(library) if isinstance(library, str) else library
    return [run_case(adapter, case) for case in cases]


def run_case(adapter: Adapter, case: Case) -> Finding:
    """One question to one library. No exception of the library escapes: it is a finding."""
    try:
        result: Tensor | str = _MEASURES[case.measure](adapter, case)
    except NotProvided as missing:
        return Finding(case, "not provided", str(missing))
    except ValueError as refusal:
        result, said = RAISES, str(refusal)
    except Exception as error:  # the library's own failure is what is reported
        return Finding(case, "error", f"{type(error).__name__}: {error}")
    else:
        said = ""
    for outcome in case.outcomes:
        if _matches(result, outcome, case):
            return Finding(case, outcome.verdict, outcome.meaning, _plain(result))
    if isinstance(result, str):
        return Finding(case, "error", f"ValueError: {said}")
    return Finding(case, "unknown", "a value that the case does not know", _plain(result))


def _matches(result: Tensor | str, outcome: Outcome, case: Case) -> bool:
    if isinstance(result, str) or isinstance(outcome.value, str):
        return isinstance(result, str) and isinstance(outcome.value, str)
    wanted = torch.as_tensor(outcome.value, dtype=torch.float64).reshape(-1)
    given = result.detach().to(torch.float64).reshape(-1)
    return given.shape == wanted.shape and torch.allclose(
        given, wanted, rtol=case.relative, atol=case.tolerance, equal_nan=True
    )


def _plain(result: Tensor | str) -> Any:
    return result if isinstance(result, str) else result.detach().to(torch.float64).tolist()


def _arguments(case: Case) -> dict[str, Any]:
    floating = getattr(torch, case.dtype)
    arguments: dict[str, Any] = {}
    for name, value in case.inputs.items():
        if isinstance(value, list):
            dtype = torch.long if name in case.integers else floating
            arguments[name] = torch.tensor(value, dtype=dtype)
        else:
            arguments[name] = list(value) if isinstance(value, tuple) else value
    return arguments


def _judged(case: Case, result: Tensor) -> Tensor:
    return result if case.at is None else result.reshape(-1)[list(case.at)]


def _value(adapter: Adapter, case: Case) -> Tensor:
    result: Tensor = getattr(adapter, case.function)(**_arguments(case))
    return _judged(case, result)


def _gradient(adapter: Adapter, case: Case) -> Tensor:
    arguments = _arguments(case)
    leaf = arguments[case.of].requires_grad_()
    result: Tensor = getattr(adapter, case.function)(**arguments)
    (slope,) = torch.autograd.grad(result.sum(), leaf)
    return _judged(case, slope)


def _expected_gradient(adapter: Adapter, case: Case) -> Tensor:
    arguments = _arguments(case)
    theta = arguments.pop("theta").requires_grad_()
    logp = theta.log_softmax(-1)
    ref_logp = arguments.pop("ref").log_softmax(-1)
    per_action: Tensor = getattr(adapter, case.function)(logp[None], ref_logp[None], **arguments)
    mean = (logp.detach().exp() * per_action[0]).sum()
    (slope,) = torch.autograd.grad(mean, theta)
    return slope


def _sum_of_parts(adapter: Adapter, case: Case) -> Tensor:
    arguments = _arguments(case)
    per_token, mask = arguments.pop("per_token"), arguments.pop("mask")
    totals = {
        "total_tokens": int(mask.sum()),
        "total_sequences": int((mask.sum(1) > 0).sum()),
    }
    pieces = zip(per_token.split(case.parts), mask.split(case.parts), strict=True)
    losses = [
        getattr(adapter, case.function)(part, part_mask, **arguments, **totals)
        for part, part_mask in pieces
    ]
    return torch.stack(losses).sum()


_MEASURES = {
    "value": _value,
    "gradient": _gradient,
    "expected gradient": _expected_gradient,
    "sum of parts": _sum_of_parts,
}
