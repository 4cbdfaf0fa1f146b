"""sampling.positions.1: positions and visibility in a left-padded batch that grows."""

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Pair = tuple[Tensor, Tensor]


def left_padded(mask: Tensor, new: int) -> Pair:
    """Positions count real tokens; a token sees earlier real tokens and itself."""
    real = _real(mask, new)
    return (real.cumsum(1) - 1).clamp(min=0), _visible(real)


def _real(mask: Tensor, new: int) -> Tensor:
    return torch.cat([mask, torch.ones(mask.shape[0], new, dtype=torch.bool)], 1)


def _visible(real: Tensor) -> Tensor:
    width = real.shape[1]
    causal = torch.ones(width, width, dtype=torch.bool).tril()
    return (causal & real[:, None, :]) | torch.eye(width, dtype=torch.bool)


def oracle(mask: list[list[bool]], new: int) -> tuple[list[list[int]], list[list[list[bool]]]]:
    """Count, token by token, and ask of each pair."""
    positions, visible = [], []
    for row in mask:
        real = list(row) + [True] * new
        places, seen = [], 0
        for here in real:
            places.append(seen)
            seen += 1 if here else 0
        positions.append(places)
        width = len(real)
        visible.append(
            [[j == i or (j < i and real[j]) for j in range(width)] for i in range(width)]
        )
    return positions, visible


def cases(draw: Draw) -> Case:
    """Prompts of several lengths, padded on the left, and some new tokens."""
    rows, width, new = draw.dimension(), draw.dimension(), draw.integer(0, 3)
    mask = draw.prefix_mask(rows, width).flip(1)
    return Case(f"{rows} × {width} and {new} new", {"mask": mask, "new": new})


def edges() -> tuple[Case, ...]:
    """No padding, one real token, no new token, many new tokens."""

    def case(name: str, mask: list[list[int]], new: int) -> Case:
        return Case(name, {"mask": torch.tensor(mask).bool(), "new": new})

    return (
        case("one token, nothing new", [[1]], 0),
        case("one token, one new", [[1]], 1),
        case("no padding", [[1, 1, 1]], 2),
        case("the hand example", [[0, 0, 1], [1, 1, 1]], 2),
        case("padding and nothing new", [[0, 1, 1]], 0),
        case("much padding", [[0, 0, 0, 1]], 3),
        case("all lengths", [[0, 0, 1], [0, 1, 1], [1, 1, 1]], 1),
    )


def _from_the_pad(mask: Tensor, new: int) -> Pair:
    real = _real(mask, new)
    return torch.arange(real.shape[1]).expand(real.shape).clone(), _visible(real)


def _from_one(mask: Tensor, new: int) -> Pair:
    real = _real(mask, new)
    return real.cumsum(1), _visible(real)


def _negative(mask: Tensor, new: int) -> Pair:
    real = _real(mask, new)
    return real.cumsum(1) - 1, _visible(real)


def _new_from_width(mask: Tensor, new: int) -> Pair:
    real = _real(mask, new)
    positions = (real.cumsum(1) - 1).clamp(min=0)
    width = mask.shape[1]
    positions[:, width:] = torch.arange(width, width + new)
    return positions, _visible(real)


def _new_stand_still(mask: Tensor, new: int) -> Pair:
    real = _real(mask, new)
    positions = (real.cumsum(1) - 1).clamp(min=0)
    if new:
        positions[:, mask.shape[1] :] = positions[:, mask.shape[1]][:, None]
    return positions, _visible(real)


def _no_padding_mask(mask: Tensor, new: int) -> Pair:
    positions, visible = left_padded(mask, new)
    return positions, torch.ones_like(visible).tril()


def _not_causal(mask: Tensor, new: int) -> Pair:
    positions, visible = left_padded(mask, new)
    real = _real(mask, new)
    return positions, real[:, None, :] | torch.eye(visible.shape[-1], dtype=torch.bool)


def _nothing_for_padding(mask: Tensor, new: int) -> Pair:
    positions, visible = left_padded(mask, new)
    return positions, visible & _real(mask, new)[:, None, :]


def _not_itself(mask: Tensor, new: int) -> Pair:
    positions, visible = left_padded(mask, new)
    return positions, visible & ~torch.eye(visible.shape[-1], dtype=torch.bool)


def _transposed(mask: Tensor, new: int) -> Pair:
    positions, visible = left_padded(mask, new)
    return positions, visible.transpose(1, 2).clone()


def _new_hidden(mask: Tensor, new: int) -> Pair:
    positions, visible = left_padded(mask, new)
    own = torch.eye(visible.shape[-1], dtype=torch.bool)
    visible[:, :, mask.shape[1] :] &= own[:, mask.shape[1] :]
    return positions, visible


def _as_if_right(mask: Tensor, new: int) -> Pair:
    real = _real(mask, new)
    lengths = mask.sum(1, keepdim=True)
    columns = torch.arange(real.shape[1])
    positions = torch.where(columns < lengths, columns, 0)
    positions[:, mask.shape[1] :] = lengths + torch.arange(new)
    return positions, _visible(real)


POSITIONS = Exercise(
    id="sampling.positions.1",
    title="Positions and visibility with padding on the left",
    chapter=31,
    difficulty=2,
    minutes=20,
    goal=(
        "For prompts padded on the left and followed by `new` tokens: each token's position, "
        "counted over real tokens, and which tokens it may look at."
    ),
    outputs=(
        Output("positions", "(B, P+new)", "int"),
        Output("visible", "(B, P+new, P+new)", "bool"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=left_padded,
    mutants=(
        Mutant(
            "counted from the pad",
            _from_the_pad,
            "positions are counted from the left edge, padding included: the same prompt then "
            "stands elsewhere in another batch. Count real tokens, with a cumulative sum of the "
            "mask",
        ),
        Mutant(
            "counted from one",
            _from_one,
            "positions begin at 1; the first real token stands at 0, so subtract 1",
        ),
        Mutant(
            "negative positions",
            _negative,
            "padding stands at position -1: a table of positions would be read from its end, so "
            "clamp at 0",
        ),
        Mutant(
            "new tokens counted from the width",
            _new_from_width,
            "new tokens are counted on from the width of the batch; they follow their own row's "
            "last real token",
        ),
        Mutant(
            "new tokens stand still",
            _new_stand_still,
            "all new tokens have one position: it grows by one with each of them",
        ),
        Mutant(
            "padding can be seen",
            _no_padding_mask,
            "padding can be seen: a causal mask alone lets real tokens look at the pads before "
            "them",
        ),
        Mutant(
            "not causal",
            _not_causal,
            "a token can see later ones: keep only what stands at or before it",
        ),
        Mutant(
            "padding sees nothing",
            _nothing_for_padding,
            "a padding token sees nothing at all: a softmax over nothing is nan, and nan spreads, "
            "so let it look at itself",
        ),
        Mutant(
            "not itself",
            _not_itself,
            "a token cannot see itself: at or before, not only before",
        ),
        Mutant(
            "transposed",
            _transposed,
            "rows and columns are exchanged: `visible[b, i, j]` says whether token i looks at j",
        ),
        Mutant(
            "new tokens hidden",
            _new_hidden,
            "new tokens are hidden from those after them: they are real, so extend the mask with "
            "ones",
        ),
        Mutant(
            "taken for right padding",
            _as_if_right,
            "positions are laid out as if padding stood on the right; here the real tokens are "
            "the last ones of the prompt",
        ),
    ),
    not_tested="prompts without a real token, and speed.",
)
