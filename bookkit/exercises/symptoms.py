"""Marks of a mistake that can be read off any wrong result, whatever the exercise.

Each symptom takes the failing runs of one output as pairs (expected, got) with their inputs, and
returns a sentence, or None. They are asked where no registered mutant matches.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import torch
from torch import Tensor

RTOL, ATOL = 1e-4, 1e-6


@dataclass(frozen=True)
class Failure:
    """One failing run of one output: float64 tensors of equal shape, and the inputs."""

    name: str
    expected: Tensor
    got: Tensor
    inputs: Mapping[str, Any]


Symptom = Callable[[list[Failure]], str | None]


def _close(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=RTOL, atol=ATOL)


def _telling(failures: list[Failure]) -> list[Failure]:
    """The finite failures, or none of them if one has an answer of zeros only.

    A wrong result where zeros are right is no multiple of the answer.
    """
    finite = [f for f in failures if bool(f.expected.isfinite().all())]
    return finite if all(bool(f.expected.any()) for f in finite) else []


GRADIENT_OF = "gradient of "


def not_a_number(failures: list[Failure]) -> str | None:
    """NaN or infinity where the answer is finite, be it in some of the failing runs only."""
    bad = [f for f in failures if bool((~f.got.isfinite() & f.expected.isfinite()).any())]
    if not bad:
        return None
    part = "" if len(bad) == len(failures) else f"in {len(bad)} of {len(failures)} failing runs "
    if bad[0].name.startswith(GRADIENT_OF):
        name = bad[0].name.removeprefix(GRADIENT_OF)
        return (
            f"{part}the gradient that reaches `{name}` is nan or inf: a branch that torch.where or "
            "a mask does not take is differentiated all the same, and log(0), 0/0 or sqrt(0) in it "
            "gives nan. Replace the entry before the formula, not after it"
        )
    floats = {
        name: value
        for name, value in bad[0].inputs.items()
        if isinstance(value, Tensor) and value.is_floating_point()
    }
    for name, value in floats.items():
        if bool(value.isnan().any()) or bool((value.abs() > 1e20).any()):
            return (
                f"{part}a nan or inf in `{name}` reaches your result. Multiplying by a "
                "mask does not remove it (0 · nan is nan): replace masked entries first, with "
                "torch.where or masked_fill"
            )
        if bool((value.abs() > 80).any()):
            return (
                f"{part}your result overflows on the large entries of `{name}`: exp of them is "
                "inf, and the log of 0 is -inf. Subtract the largest first, or use log_softmax or "
                "logsumexp"
            )
    return (
        f"{part}`{bad[0].name}` holds nan or inf: look for 0/0, log(0), or the standard deviation "
        "of a single value"
    )


def opposite_sign(failures: list[Failure]) -> str | None:
    """Minus the right answer."""
    telling = _telling(failures)
    if telling and all(_close(f.got, -f.expected) for f in telling):
        return f"`{telling[0].name}` is the right answer with the opposite sign"
    return None


def inverted(failures: list[Failure]) -> str | None:
    """A mask with zeros and ones exchanged."""
    zero_one = all(bool(((f.expected == 0) | (f.expected == 1)).all()) for f in failures)
    if zero_one and all(torch.equal(f.got, 1 - f.expected) for f in failures):
        return f"`{failures[0].name}` is the right answer inverted: ones and zeros are exchanged"
    return None


def _sizes(inputs: Mapping[str, Any]) -> dict[str, int]:
    """Axis lengths of the largest input tensor, by a name that a learner understands."""
    tensors = {n: v for n, v in inputs.items() if isinstance(v, Tensor) and v.dim() > 0}
    if not tensors:
        return {}
    name = max(tensors, key=lambda n: tensors[n].dim())
    return {f"the size of axis {i} of `{name}`": s for i, s in enumerate(tensors[name].shape)}


def constant_factor(failures: list[Failure]) -> str | None:
    """The right answer times a constant, or times or over the length of an axis."""
    telling = _telling(failures)
    ratios = []
    for f in telling:
        where = f.expected.abs() > 1e-3
        if not bool(where.any()):
            continue
        ratio = (f.got[where] / f.expected[where]).mean()
        if not bool(ratio.isfinite()) or not _close(f.got, ratio * f.expected):
            return None
        ratios.append((float(ratio), f))
    if len({id(f.inputs) for _, f in ratios}) < 2 or any(abs(r) < 1e-9 for r, _ in ratios):
        return None
    name = telling[0].name
    if _all_near([(ratio, ratios[0][0]) for ratio, _ in ratios]):
        return f"`{name}` is {ratios[0][0]:.4g} times the right answer in every failing case"
    sizes = [_sizes(f.inputs) for _, f in ratios]
    labels = [label for label in sizes[0] if all(s.get(label) for s in sizes)]
    for label in labels:
        if _all_near([(r, s[label]) for (r, _), s in zip(ratios, sizes, strict=True)]):
            return f"`{name}` is the right answer times {label}"
        if _all_near([(r, 1 / s[label]) for (r, _), s in zip(ratios, sizes, strict=True)]):
            return f"`{name}` is the right answer divided by {label}"
    for one, other in permutations(labels, 2):
        if _all_near([(r, s[one] / s[other]) for (r, _), s in zip(ratios, sizes, strict=True)]):
            return (
                f"`{name}` is the right answer times {one} over {other}: was the mean taken over "
                "the wrong axis?"
            )
    return None


def _all_near(pairs: list[tuple[float, float]]) -> bool:
    return all(abs(found - wanted) <= 1e-3 * abs(wanted) for found, wanted in pairs)


def constant_offset(failures: list[Failure]) -> str | None:
    """The right answer plus a constant."""
    offsets = []
    for f in _telling(failures):
        offset = (f.got - f.expected).mean()
        if f.got.numel() < 2 or not _close(f.got, f.expected + offset):
            continue
        offsets.append(float(offset))
    if len(offsets) < 2 or len(offsets) < len(_telling(failures)) // 2:
        return None
    if all(abs(o - offsets[0]) < 1e-4 for o in offsets):
        return f"`{failures[0].name}` is the right answer plus {offsets[0]:.4g}"
    return f"`{failures[0].name}` is off by one amount for all entries of a case"


def shifted(failures: list[Failure]) -> str | None:
    """The right answer moved by one place along the last axis."""
    long = [f for f in failures if f.expected.dim() and f.expected.shape[-1] >= 3]
    if len(long) < 2:
        return None
    if all(_close(f.got[..., 1:], f.expected[..., :-1]) for f in long):
        return f"`{long[0].name}` is the right answer one place too far to the right (last axis)"
    if all(_close(f.got[..., :-1], f.expected[..., 1:]) for f in long):
        return f"`{long[0].name}` is the right answer one place too far to the left (last axis)"
    return None


def reversed_in_time(failures: list[Failure]) -> str | None:
    """The right answer backwards along the last axis."""
    long = [f for f in failures if f.expected.dim() and f.expected.shape[-1] >= 2]
    if long and all(_close(f.got.flip(-1), f.expected) for f in long):
        return f"`{long[0].name}` is the right answer backwards along the last axis"
    return None


def wrong_under_the_mask(failures: list[Failure]) -> str | None:
    """Right wherever the mask counts."""
    found = False
    for f in failures:
        mask = f.inputs.get("mask")
        if not isinstance(mask, Tensor) or mask.shape != f.got.shape:
            return None
        if not _close(f.got[mask], f.expected[mask]) or not bool(f.got.isfinite().all()):
            return None
        found = True
    if not found:
        return None
    return (
        f"`{failures[0].name}` is right wherever the mask counts; only its masked places are wrong"
    )


def right_in_the_first_row(failures: list[Failure]) -> str | None:
    """Right for row 0 of every batch."""
    batches = [f for f in failures if f.expected.dim() and f.expected.shape[0] > 1]
    if len(batches) < len(failures) or len(batches) < 3:
        return None
    if all(_close(f.got[0], f.expected[0]) for f in batches):
        return (
            f"`{batches[0].name}` is right in the first row and wrong in later ones: something is "
            "carried over from one row to the next, or row 0 is used for all"
        )
    return None


def always_zero(failures: list[Failure]) -> str | None:
    """Nothing but zeros."""
    if len(failures) > 2 and all(not bool(f.got.any()) for f in failures):
        return f"`{failures[0].name}` is zero in every failing case: is the result ever written?"
    return None


def nearly_right(failures: list[Failure]) -> str | None:
    """Off by little everywhere."""
    worst = 0.0
    for f in failures:
        if not bool((f.got.isfinite() & f.expected.isfinite()).all()):
            return None
        scale = f.expected.abs().clamp(min=1e-2)
        worst = max(worst, float(((f.got - f.expected).abs() / scale).max()))
    if 0 < worst < 2e-2:
        return (
            f"`{failures[0].name}` is nearly right (at most {100 * worst:.2g} % off): look for an "
            "added epsilon, a clamp or a rounding"
        )
    return None


SYMPTOMS: tuple[Symptom, ...] = (
    always_zero,
    opposite_sign,
    inverted,
    wrong_under_the_mask,
    right_in_the_first_row,
    constant_factor,
    nearly_right,
    constant_offset,
    shifted,
    reversed_in_time,
)


def read_symptoms(failures: list[Failure]) -> str | None:
    """The first symptom that all these failures show."""
    usable = [f for f in failures if f.expected.shape == f.got.shape and f.expected.numel()]
    sentences = (symptom(usable) for symptom in SYMPTOMS) if usable else iter(())
    return next((sentence for sentence in sentences if sentence), None)


Shape = tuple[int, ...]


def _is_lengthened(want: Shape, have: Shape, by: int) -> bool:
    return len(have) == len(want) > 0 and have[:-1] == want[:-1] and have[-1] == want[-1] + by


def _has_spare_axis(want: Shape, have: Shape) -> bool:
    return len(have) == len(want) + 1 and any(
        have[i] == 1 and have[:i] + have[i + 1 :] == want for i in range(len(have))
    )


SHAPE_SYMPTOMS: tuple[tuple[Callable[[Shape, Shape], bool], str], ...] = (
    (lambda want, have: len(want) > 1 and have == want[::-1], "the axes are exchanged"),
    (
        _has_spare_axis,
        "an axis of length 1 is left over (keepdim, or unsqueeze without squeeze)",
    ),
    (
        lambda want, have: len(want) == 1 and have == (want[0], want[0]),
        "(B,) met (B, 1) and was broadcast to every pair",
    ),
    (
        lambda want, have: _is_lengthened(want, have, 1),
        "the last axis is one too long: is the shift missing?",
    ),
    (
        lambda want, have: _is_lengthened(want, have, -1),
        "the last axis is one too short: was it shifted twice?",
    ),
    (lambda want, have: bool(want) and not have, "it was reduced to a single number"),
    (lambda want, have: not want and bool(have), "it was not reduced to a single number"),
    (lambda want, have: len(have) == len(want) - 1, "an axis is missing"),
)


def read_shapes(pairs: list[tuple[Shape, Shape]]) -> str | None:
    """What wrong shapes, as pairs (expected, got), suggest: a sentence that fits all of them."""
    for applies, sentence in SHAPE_SYMPTOMS:
        if pairs and all(applies(want, have) for want, have in pairs):
            return sentence
    return None
