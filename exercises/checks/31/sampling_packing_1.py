"""sampling.packing.1: sequences end to end in one row."""

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


def oracle(lengths: list[int]) -> tuple[list[int], list[list[bool]], list[bool]]:
    """Every token as a pair (sequence, place)."""
    tokens = [(number, place) for number, n in enumerate(lengths) for place in range(n)]
    positions = [place for _, place in tokens]
    visible = [[a[0] == b[0] and b[1] <= a[1] for b in tokens] for a in tokens]
    scored = [tokens[i][0] == tokens[i + 1][0] for i in range(len(tokens) - 1)]
    return positions, visible, scored


def cases(draw: Draw) -> Case:
    """A few sequences of one to five tokens."""
    number = draw.dimension()
    return Case(f"{number} sequences", {"lengths": draw.integers(1, 5, number)})


def edges() -> tuple[Case, ...]:
    """One sequence, single tokens, the hand example."""

    def case(name: str, lengths: list[int]) -> Case:
        return Case(name, {"lengths": torch.tensor(lengths)})

    return (
        case("one token", [1]),
        case("one sequence", [3]),
        case("two single tokens", [1, 1]),
        case("the hand example", [3, 2]),
        case("a single token in the middle", [2, 1, 3]),
        case("three of one length", [2, 2, 2]),
    )


CHECK = Check(
    id="sampling.packing.1",
    outputs=(
        Output("positions", "(T,)", "int"),
        Output("visible", "(T, T)", "bool"),
        Output("scored", "(T-1,)", "bool"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "positions run on",
            " - starts",
            "",
            "positions run on over the border: each sequence begins at 0 again",
        ),
        edit(
            "positions from one",
            "positions, visible, scored",
            "(positions + 1, visible, scored)",
            "positions begin at 1; the first token of a sequence stands at 0",
        ),
        edit(
            "causal only",
            "positions, visible, scored",
            "(positions, torch.ones_like(visible).tril(), scored)",
            "tokens look over the border: a causal mask alone lets a sequence read the "
            "one before it",
        ),
        edit(
            "not causal",
            "(segments[:, None] == segments[None, :]).tril()",
            "segments[:, None] == segments[None, :]",
            "tokens see later ones of their sequence: keep what stands at or before them",
        ),
        edit(
            "not itself",
            "positions, visible, scored",
            "(positions, visible.tril(-1), scored)",
            "a token cannot see itself: at or before, not before",
        ),
        edit(
            "upper triangle",
            "positions, visible, scored",
            "(positions, visible.T.clone(), scored)",
            "rows and columns are exchanged: `visible[i, j]` says whether token i looks at j",
        ),
        edit(
            "border scored",
            ":-1",
            "1:",
            "the last token of a sequence is scored on the first of the next: that "
            "prediction crosses the border, so leave it out",
        ),
        edit(
            "second token not scored",
            "positions, visible, scored",
            "(positions, visible, positions[:-1] > 0)",
            "the prediction made at each sequence's first token is left out; it is the "
            "one made at the last token that crosses the border",
        ),
        edit(
            "shifted by one",
            "    return positions",
            "    scored = torch.cat([torch.ones(1, dtype=torch.bool), scored[:-1]])[: "
            "len(scored)]\n"
            "    return positions",
            "`scored` is shifted by one: entry t belongs to the prediction of token t+1 from t",
        ),
        edit(
            "one entry a token",
            "positions, visible, scored",
            "(positions, visible, torch.cat([scored, torch.zeros(1, dtype=torch.bool)]))",
            "`scored` has T entries; T tokens make T-1 predictions of a next one",
        ),
        edit(
            "upside down",
            "[:-1] =",
            "[:-1] !",
            "`scored` marks the borders; it is True where a prediction stays inside its sequence",
        ),
    ),
    not_tested="empty sequences, and attention kernels that take borders instead of a mask.",
)
