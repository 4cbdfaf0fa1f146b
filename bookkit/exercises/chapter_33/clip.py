"""shard.clip.1: one norm for a gradient that nobody holds whole."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Triple = tuple[Tensor, Tensor, Tensor]


def clip(shards: list[Tensor], replicated: Tensor, max_norm: float) -> Triple:
    """Sum the squares of all shards, count what every rank has once, scale all alike."""
    return _clip(shards, replicated, max_norm)


def _clip(
    shards: list[Tensor],
    replicated: Tensor,
    max_norm: float,
    *,
    copies: int = 1,
    up: bool = False,
    root: bool = True,
    leave_replicated: bool = False,
) -> Triple:
    squares = torch.stack([s.square().sum() for s in shards]).sum()
    squares = squares + copies * replicated.square().sum()
    norm = squares.sqrt() if root else squares
    scale = max_norm / norm if norm > max_norm or (up and norm > 0) else torch.ones_like(norm)
    kept = replicated.clone() if leave_replicated else replicated * scale
    return torch.stack(shards) * scale, kept, norm


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


def _each_rank(shards: list[Tensor], replicated: Tensor, max_norm: float) -> Triple:
    out = [_clip([s], replicated, max_norm) for s in shards]
    return torch.cat([o[0] for o in out]), out[0][1], out[0][2]


def _sum_of_norms(shards: list[Tensor], replicated: Tensor, max_norm: float) -> Triple:
    norm = torch.stack([s.norm() for s in shards]).sum() + replicated.norm()
    scale = max_norm / norm if norm > max_norm else torch.ones_like(norm)
    return torch.stack(shards) * scale, replicated * scale, norm


def _counted_often(shards: list[Tensor], replicated: Tensor, max_norm: float) -> Triple:
    return _clip(shards, replicated, max_norm, copies=len(shards))


def _forgotten(shards: list[Tensor], replicated: Tensor, max_norm: float) -> Triple:
    return _clip(shards, replicated, max_norm, copies=0)


def _scaled_up(shards: list[Tensor], replicated: Tensor, max_norm: float) -> Triple:
    return _clip(shards, replicated, max_norm, up=True)


def _no_root(shards: list[Tensor], replicated: Tensor, max_norm: float) -> Triple:
    return _clip(shards, replicated, max_norm, root=False)


def _not_scaled(shards: list[Tensor], replicated: Tensor, max_norm: float) -> Triple:
    return _clip(shards, replicated, max_norm, leave_replicated=True)


def _entries(shards: list[Tensor], replicated: Tensor, max_norm: float) -> Triple:
    norm = _clip(shards, replicated, max_norm)[2]
    kept = torch.stack(shards).clamp(-max_norm, max_norm)
    return kept, replicated.clamp(-max_norm, max_norm), norm


def _norm_after(shards: list[Tensor], replicated: Tensor, max_norm: float) -> Triple:
    kept, same, norm = _clip(shards, replicated, max_norm)
    return kept, same, norm.clamp(max=max_norm)


def _largest(shards: list[Tensor], replicated: Tensor, max_norm: float) -> Triple:
    norm = torch.stack([*[s.norm() for s in shards], replicated.norm()]).max()
    scale = max_norm / norm if norm > max_norm else torch.ones_like(norm)
    return torch.stack(shards) * scale, replicated * scale, norm


CLIP = Exercise(
    id="shard.clip.1",
    title="Clip a gradient that nobody holds",
    chapter=33,
    difficulty=3,
    minutes=20,
    goal=(
        "The norm of the whole gradient, of which each rank has a shard and all ranks have the "
        "same replicated part; and both parts scaled so that the norm is at most max_norm."
    ),
    outputs=(
        Output("clipped", "(ranks, S)"),
        Output("replicated", "(R,)"),
        Output("norm", "()"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=clip,
    mutants=(
        Mutant(
            "each rank for itself",
            _each_rank,
            "each rank clips by the norm of what it holds: the ranks scale differently, and the "
            "direction of the step changes. One norm for all",
        ),
        Mutant(
            "norms added",
            _sum_of_norms,
            "norms are added up; squares of norms add up, and the root comes last",
        ),
        Mutant(
            "replicated counted often",
            _counted_often,
            "the replicated part is counted once a rank: summing over the ranks sees it P times, "
            "the whole gradient holds it once",
        ),
        Mutant(
            "replicated left out of the norm",
            _forgotten,
            "the replicated part is missing in the norm: it is part of the gradient",
        ),
        Mutant(
            "scaled up",
            _scaled_up,
            "a gradient below the limit is made longer: clipping only shortens",
        ),
        Mutant("no root", _no_root, "the norm is the sum of squares without its root"),
        Mutant(
            "replicated not scaled",
            _not_scaled,
            "the replicated part is not scaled: then it is stepped further than the rest",
        ),
        Mutant(
            "entries",
            _entries,
            "entries are cut one by one, which changes the direction: scale all by one number",
        ),
        Mutant(
            "norm afterwards",
            _norm_after,
            "the norm is the one after clipping; the one before is what a log wants to see",
        ),
        Mutant(
            "largest norm",
            _largest,
            "the norm is the largest of the parts' norms: squares of all parts add up",
        ),
    ),
    not_tested="norms that are not finite, and norms other than the Euclidean one.",
)
