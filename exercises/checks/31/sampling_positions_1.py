"""sampling.positions.1: positions and visibility in a left-padded batch that grows."""

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


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


CHECK = Check(
    id="sampling.positions.1",
    outputs=(
        Output("positions", "(B, P+new)", "int"),
        Output("visible", "(B, P+new, P+new)", "bool"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "counted from the pad",
            "(real.cumsum(1) - 1).clamp(min=0)",
            "torch.arange(real.shape[1]).expand(real.shape)",
            "positions are counted from the left edge, padding included: the same prompt "
            "then stands elsewhere in another batch. Count real tokens, with a cumulative "
            "sum of the mask",
        ),
        edit(
            "counted from one",
            " - 1",
            "",
            "positions begin at 1; the first real token stands at 0, so subtract 1",
        ),
        edit(
            "negative positions",
            "min=0",
            "min=-1",
            "padding stands at position -1: a table of positions would be read from its "
            "end, so clamp at 0",
        ),
        edit(
            "new tokens counted from the width",
            "positions = (real.cumsum(1) - 1).clamp(min=0)",
            "positions = (real.cumsum(1) - 1).clamp(min=0)\n"
            "    positions[:, mask.shape[1] :] = torch.arange(mask.shape[1], "
            "real.shape[1])",
            "new tokens are counted on from the width of the batch; they follow their own "
            "row's last real token",
        ),
        edit(
            "new tokens stand still",
            "positions = (real.cumsum(1) - 1).clamp(min=0)",
            "positions = (real.cumsum(1) - 1).clamp(min=0)\n"
            "    width = mask.shape[1]\n"
            "    positions[:, width:] = positions[:, width : width + 1]",
            "all new tokens have one position: it grows by one with each of them",
        ),
        edit(
            "padding can be seen",
            "positions, visible",
            "(positions, torch.ones_like(visible).tril())",
            "padding can be seen: a causal mask alone lets real tokens look at the pads "
            "before them",
        ),
        edit(
            "not causal",
            ".tril()",
            "",
            "a token can see later ones: keep only what stands at or before it",
        ),
        edit(
            "padding sees nothing",
            "(causal & real[:, None, :]) | torch.eye(width, dtype=torch.bool)",
            "causal & real[:, None, :]",
            "a padding token sees nothing at all: a softmax over nothing is nan, and nan "
            "spreads, so let it look at itself",
        ),
        edit(
            "not itself",
            "positions, visible",
            "(positions, visible & ~torch.eye(visible.shape[-1], dtype=torch.bool))",
            "a token cannot see itself: at or before, not only before",
        ),
        edit(
            "transposed",
            "positions, visible",
            "(positions, visible.transpose(1, 2).clone())",
            "rows and columns are exchanged: `visible[b, i, j]` says whether token i looks at j",
        ),
        edit(
            "new tokens hidden",
            "    return positions, visible",
            "    new_columns = torch.arange(width) >= mask.shape[1]\n"
            "    visible &= ~new_columns | torch.eye(width, dtype=torch.bool)\n"
            "    return positions, visible",
            "new tokens are hidden from those after them: they are real, so extend the "
            "mask with ones",
        ),
        edit(
            "taken for right padding",
            "positions = (real.cumsum(1) - 1).clamp(min=0)",
            "lengths, columns = mask.sum(1, keepdim=True), torch.arange(real.shape[1])\n"
            "    positions = torch.where(columns < lengths, columns, 0)\n"
            "    positions[:, mask.shape[1] :] = lengths + torch.arange(new)",
            "positions are laid out as if padding stood on the right; here the real "
            "tokens are the last ones of the prompt",
        ),
    ),
    not_tested="prompts without a real token, and speed.",
)
