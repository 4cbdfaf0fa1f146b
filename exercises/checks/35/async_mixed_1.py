"""async.mixed.1: importance weights of tokens that different versions drew."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


def oracle(
    logp: list[list[float]],
    by_version: list[list[list[float]]],
    versions: list[list[int]],
    mask: list[list[bool]],
    first: int,
    cap: float,
) -> list[list[float]]:
    """Look the table of the token's version up, by its number."""
    tables = {first + k: table for k, table in enumerate(by_version)}
    result = []
    for row, line in enumerate(logp):
        weights = []
        for place, now in enumerate(line):
            if not mask[row][place]:
                weights.append(0.0)
                continue
            then = tables[versions[row][place]][row][place]
            weights.append(min(math.exp(min(now - then, 700.0)), cap))
        result.append(weights)
    return result


def cases(draw: Draw) -> Case:
    """One to four versions, rising along a row; the mask has holes, with −1 for a version."""
    rows, columns, number = draw.dimension(), draw.dimension(), draw.integer(1, 4)
    first = draw.integer(0, 3)
    mask = draw.holed_mask(rows, columns)
    grown = draw.integers(0, number - 1, rows, columns).sort(dim=1).values
    by_version = -draw.uniform(0.1, 2.5, number, rows, columns)
    inputs = {
        "logp": by_version[-1] + draw.uniform(-0.8, 0.8, rows, columns),
        "by_version": by_version,
        "versions": torch.where(mask, first + grown, -1),
        "mask": mask,
        "first": first,
        "cap": draw.choice([1.5, 2.0, 4.0]),
    }
    return Case(f"{rows} × {columns}, {number} versions", inputs)


def edges() -> tuple[Case, ...]:
    """One version, two in a row, rows that begin apart, first not 0, the cap, holes with nan."""

    def case(
        name: str,
        now: list[list[float]],
        then: list[list[list[float]]],
        versions: list[list[int]],
        first: int = 0,
        cap: float = 10.0,
    ) -> Case:
        drawn_by = torch.tensor(versions)
        inputs = {
            "logp": torch.tensor(now, dtype=torch.float64).log(),
            "by_version": torch.tensor(then, dtype=torch.float64).log(),
            "versions": drawn_by,
            "mask": drawn_by >= 0,
            "first": first,
            "cap": cap,
        }
        return Case(name, inputs)

    two = [[[0.5, 0.1, 0.3]], [[0.6, 0.4, 0.2]]]
    rows = [
        [[0.5, 0.1], [0.3, 0.7]],
        [[0.2, 0.4], [0.6, 0.5]],
        [[0.8, 0.9], [0.25, 0.35]],
    ]
    return (
        case("one token", [[0.6]], [[[0.5]]], [[0]]),
        case("the hand example", [[0.6, 0.5]], [[[0.5, 0.1]], [[0.6, 0.4]]], [[4, 5]], first=4),
        case("one version, the second", [[0.6, 0.5, 0.4]], two, [[1, 1, 1]]),
        case("one version, the first", [[0.6, 0.5, 0.4]], two, [[0, 0, 0]]),
        case("it changes after a token", [[0.6, 0.5, 0.4]], two, [[0, 1, 1]]),
        case("two rows of three versions", [[0.6, 0.5], [0.4, 0.3]], rows, [[2, 3], [3, 4]],
             first=2),
        case("first 1", [[0.6, 0.5], [0.4, 0.3]], rows, [[1, 3], [2, 2]], first=1),
        case("beyond the cap", [[0.6, 0.5, 0.4]], two, [[0, 0, 1]], cap=1.5),
        case("rare tokens", [[2e-9, 3e-8]], [[[1e-9, 2e-9]], [[3e-9, 1e-9]]], [[0, 1]], cap=50.0),
        case("a small weight", [[0.05, 0.5, 0.1]], two, [[0, 0, 1]], cap=1.5),
        case("a hole", [[0.6, 0.5, 0.4]], two, [[0, -1, 1]]),
        case("padding", [[0.6, 0.5, 0.4]], two, [[3, 4, -1]], first=3),
        case("a hole at the start", [[0.6, 0.5, 0.4]], two, [[-1, 4, 3]], first=3),
        case("nothing counts", [[0.6, 0.5, 0.4]], two, [[-1, -1, -1]]),
        case("nan in the padding", [[0.6, 0.5, math.nan]],
             [[[0.5, 0.1, math.nan]], [[0.6, 0.4, math.nan]]], [[0, 1, -1]]),
    )  # fmt: skip


GATHERED = "by_version.detach().gather(0, place[None])[0]"
GAP = "torch.where(mask, logp.detach() - behaviour, 0.0)"

CHECK = Check(
    id="async.mixed.1",
    outputs=(Output("weights", "(B, T)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "the oldest version for all",
            GATHERED,
            "by_version[0].detach()",
            "every token is compared with the oldest version that is there; each has one of its "
            "own",
        ),
        edit(
            "the newest version for all",
            GATHERED,
            "by_version[-1].detach()",
            "every token is compared with the newest version that is there, as if it had been "
            "computed again at the end; each was drawn by a version of its own",
        ),
        edit(
            "the version of the first token",
            "    behaviour =",
            "    place = place.gather(1, mask.int().argmax(1, keepdim=True)).expand_as(place)\n"
            "    behaviour =",
            "a row is compared with the version of its first token: weights changed in flight, "
            "and the tokens behind it were drawn by newer ones",
        ),
        edit(
            "the version of the last token",
            "    behaviour =",
            "    place = place.max(1, keepdim=True).values.expand_as(place)\n    behaviour =",
            "a row is compared with its newest version, which did not draw the tokens before",
        ),
        edit(
            "versions counted from 0",
            "versions - first",
            "versions",
            "`first` is never used: `by_version[0]` belongs to version `first`",
        ),
        edit(
            "an index of the padding",
            "torch.where(mask, versions - first, 0)",
            "versions - first",
            "the padding has the version -1, which is no place of the table: replace the index "
            "where the mask is, before you look anything up",
        ),
        edit(
            "not truncated",
            ".clamp(max=cap)",
            "",
            "`cap` is never used: one token may outweigh all the others",
        ),
        edit(
            "truncated below as well",
            ".clamp(max=cap)",
            ".clamp(1 / cap, cap)",
            "the weight is held above 1 / cap as well: a small weight does no harm",
        ),
        edit(
            "weights upside down",
            "logp.detach() - behaviour",
            "behaviour - logp.detach()",
            "the weight is upside down: the probability now stands above, that under the version "
            "that drew the token below",
        ),
        edit(
            "one weight a row",
            "    weights = gap",
            "    gap = gap.sum(1, keepdim=True).expand_as(gap)\n    weights = gap",
            "the ratios of a row are multiplied: that is the weight of the whole completion; each "
            "token has its own",
        ),
        edit(
            "the mean of a row",
            "    weights = gap",
            "    gap = gap.sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1) "
            "+ 0 * gap\n    weights = gap",
            "the ratios of a row are averaged: each token has its own",
        ),
        edit(
            "one in the padding",
            "return torch.where(mask, weights, 0.0)",
            "return weights",
            "the padding has the weight 1; it is 0 there, so that nothing counts",
        ),
        edits(
            "masked by a product",
            (GAP, "logp.detach() - behaviour"),
            ("torch.where(mask, weights, 0.0)", "weights * mask"),
            message="multiplying by the mask leaves nan in the padding: replace the difference "
            "there before exp",
        ),
        edit(
            "the logarithm",
            "gap.exp().clamp(max=cap)",
            "gap.clamp(max=cap)",
            "`exp` is missing: this is the logarithm of the weight",
        ),
        edits(
            "a gradient through the weights",
            ("by_version.detach()", "by_version"),
            ("logp.detach()", "logp"),
            message="the values are right, but a gradient passes through the weights: they "
            "say how much a token counts, and are constants",
        ),
    ),
    not_tested="numbers that differ because the generator computes in another precision.",
    no_gradient_to=("logp", "by_version"),
    wide=("logp", "by_version"),
    holed=(),
    special=(
        ("cap", 0.0),
        ("cap", 1.0),
    ),
)
