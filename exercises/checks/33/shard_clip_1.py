"""shard.clip.1: one norm for a gradient that nobody holds whole."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


def oracle(
    shards: list[list[float]], replicated: list[float], max_norm: float
) -> tuple[list[list[float]], list[float], float]:
    """One long list of what one process would hold."""
    whole = [x for shard in shards for x in shard] + list(replicated)
    norm = math.hypot(*whole)
    scale = min(1.0, max_norm / norm) if norm else 1.0
    return [[x * scale for x in s] for s in shards], [x * scale for x in replicated], norm


def cases(draw: Draw) -> Case:
    """Two to four ranks; norms on both sides of the limit."""
    ranks, size = draw.integer(1, 4), draw.dimension()
    inputs = {
        "shards": [draw.normal(size) for _ in range(ranks)],
        "replicated": draw.normal(draw.dimension()),
        "max_norm": draw.choice([0.5, 1.0, 20.0]),
    }
    return Case(f"{ranks} ranks", inputs)


def edges() -> tuple[Case, ...]:
    """The hand example, a small norm, nothing replicated, a rank without gradient, all zero."""

    def case(name: str, shards: list[list[float]], replicated: list[float], limit: float) -> Case:
        inputs = {
            "shards": [torch.tensor(s, dtype=torch.float64) for s in shards],
            "replicated": torch.tensor(replicated, dtype=torch.float64),
            "max_norm": limit,
        }
        return Case(name, inputs)

    return (
        case("the hand example", [[2.0], [4.0]], [4.0], 3.0),
        case("below the limit", [[0.3], [0.4]], [0.1], 3.0),
        case("nothing replicated", [[3.0, 0.0], [0.0, 4.0]], [], 1.0),
        case("one rank", [[3.0, 4.0]], [0.0], 1.0),
        case("a rank without gradient", [[0.0, 0.0], [6.0, 8.0]], [1.0], 2.0),
        case("between the norms of the ranks and the whole", [[3.0], [4.0]], [2.0], 5.1),
        case("all zero", [[0.0], [0.0]], [0.0], 1.0),
        case("three ranks", [[1.0, 2.0], [2.0, 1.0], [0.5, 4.0]], [2.0, 1.0], 0.5),
    )


CHECK = Check(
    id="shard.clip.1",
    outputs=(
        Output("clipped", "(ranks, S)"),
        Output("replicated", "(R,)"),
        Output("norm", "()"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edits(
            "each rank for itself",
            ("shards]).sum() +", "shards]) +"),
            (
                "max_norm / norm if norm > max_norm else torch.ones_like(norm)",
                "torch.where(norm > max_norm, max_norm / norm, 1.0)",
            ),
            (
                "(shards) * scale, replicated * scale, norm",
                "(shards) * scale[:, None], replicated * scale[0], norm[0]",
            ),
            message="each rank clips by the norm of what it holds: the ranks scale differently, "
            "and the direction of the step changes. One norm for all",
        ),
        edits(
            "norms added",
            ("s.square().sum() for s", "s.norm() for s"),
            ("replicated.square().sum()", "replicated.norm()"),
            ("squares.sqrt()", "squares"),
            message="norms are added up; squares of norms add up, and the root comes last",
        ),
        edit(
            "replicated counted often",
            "replicated.square()",
            "len(shards) * replicated.square()",
            "the replicated part is counted once a rank: summing over the ranks sees it P "
            "times, the whole gradient holds it once",
        ),
        edit(
            "replicated left out of the norm",
            " + replicated.square().sum()",
            "",
            "the replicated part is missing in the norm: it is part of the gradient",
        ),
        edit(
            "scaled up",
            "norm > max_norm",
            "norm > 0",
            "a gradient below the limit is made longer: clipping only shortens",
        ),
        edit(
            "no root",
            "squares.sqrt()",
            "squares",
            "the norm is the sum of squares without its root",
        ),
        edit(
            "replicated not scaled",
            "replicated * scale",
            "replicated.clone()",
            "the replicated part is not scaled: then it is stepped further than the rest",
        ),
        edit(
            "entries",
            "(shards) * scale, replicated * scale",
            "(shards).clamp(-max_norm, max_norm), replicated.clamp(-max_norm, max_norm)",
            "entries are cut one by one, which changes the direction: scale all by one number",
        ),
        edit(
            "norm afterwards",
            "scale, norm",
            "scale, norm.clamp(max=max_norm)",
            "the norm is the one after clipping; the one before is what a log wants to see",
        ),
        edit(
            "largest norm",
            "for s in shards]).sum() + replicated.square().sum()",
            "for s in [*shards, replicated]]).max()",
            "the norm is the largest of the parts' norms: squares of all parts add up",
        ),
    ),
    not_tested="norms that are not finite, and norms other than the Euclidean one.",
    wide=(
        "shards",
        "replicated",
    ),
)
