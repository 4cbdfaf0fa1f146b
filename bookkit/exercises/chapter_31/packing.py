"""sampling.packing.1: sequences end to end in one row."""

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Triple = tuple[Tensor, Tensor, Tensor]


def packed(lengths: Tensor) -> Triple:
    """Positions, who sees whom, and which logits predict a token of their own sequence."""
    segments = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    starts = torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)
    positions = torch.arange(len(segments)) - starts
    visible = (segments[:, None] == segments[None, :]).tril()
    scored = segments[:-1] == segments[1:]
    return positions, visible, scored


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


def _segments(lengths: Tensor) -> Tensor:
    return torch.repeat_interleave(torch.arange(len(lengths)), lengths)


def _running_positions(lengths: Tensor) -> Triple:
    _, visible, scored = packed(lengths)
    return torch.arange(int(lengths.sum())), visible, scored


def _from_one(lengths: Tensor) -> Triple:
    positions, visible, scored = packed(lengths)
    return positions + 1, visible, scored


def _causal_only(lengths: Tensor) -> Triple:
    positions, visible, scored = packed(lengths)
    return positions, torch.ones_like(visible).tril(), scored


def _not_causal(lengths: Tensor) -> Triple:
    positions, _, scored = packed(lengths)
    segments = _segments(lengths)
    return positions, segments[:, None] == segments[None, :], scored


def _not_itself(lengths: Tensor) -> Triple:
    positions, visible, scored = packed(lengths)
    return positions, visible.tril(-1), scored


def _upper(lengths: Tensor) -> Triple:
    positions, visible, scored = packed(lengths)
    return positions, visible.T.clone(), scored


def _border_scored(lengths: Tensor) -> Triple:
    positions, visible, scored = packed(lengths)
    return positions, visible, torch.ones_like(scored)


def _first_not_scored(lengths: Tensor) -> Triple:
    positions, visible, _ = packed(lengths)
    return positions, visible, positions[:-1] > 0


def _one_late(lengths: Tensor) -> Triple:
    positions, visible, scored = packed(lengths)
    late = torch.cat([torch.ones(1, dtype=torch.bool), scored[:-1]])[: len(scored)]
    return positions, visible, late


def _all_of_them(lengths: Tensor) -> Triple:
    positions, visible, scored = packed(lengths)
    return positions, visible, torch.cat([scored, torch.zeros(1, dtype=torch.bool)])


def _upside_down(lengths: Tensor) -> Triple:
    positions, visible, scored = packed(lengths)
    return positions, visible, ~scored


PACKING = Exercise(
    id="sampling.packing.1",
    title="Sequences end to end",
    chapter=31,
    difficulty=2,
    minutes=15,
    goal=(
        "For sequences laid end to end: each token's position in its own sequence, which tokens it "
        "may look at, and which of the T-1 next-token predictions stay inside a sequence."
    ),
    outputs=(
        Output("positions", "(T,)", "int"),
        Output("visible", "(T, T)", "bool"),
        Output("scored", "(T-1,)", "bool"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=packed,
    mutants=(
        Mutant(
            "positions run on",
            _running_positions,
            "positions run on over the border: each sequence begins at 0 again",
        ),
        Mutant(
            "positions from one",
            _from_one,
            "positions begin at 1; the first token of a sequence stands at 0",
        ),
        Mutant(
            "causal only",
            _causal_only,
            "tokens look over the border: a causal mask alone lets a sequence read the one before "
            "it",
        ),
        Mutant(
            "not causal",
            _not_causal,
            "tokens see later ones of their sequence: keep what stands at or before them",
        ),
        Mutant("not itself", _not_itself, "a token cannot see itself: at or before, not before"),
        Mutant(
            "upper triangle",
            _upper,
            "rows and columns are exchanged: `visible[i, j]` says whether token i looks at j",
        ),
        Mutant(
            "border scored",
            _border_scored,
            "the last token of a sequence is scored on the first of the next: that prediction "
            "crosses the border, so leave it out",
        ),
        Mutant(
            "second token not scored",
            _first_not_scored,
            "the prediction made at each sequence's first token is left out; it is the one made "
            "at the last token that crosses the border",
        ),
        Mutant(
            "shifted by one",
            _one_late,
            "`scored` is shifted by one: entry t belongs to the prediction of token t+1 from t",
        ),
        Mutant(
            "one entry a token",
            _all_of_them,
            "`scored` has T entries; T tokens make T-1 predictions of a next one",
        ),
        Mutant(
            "upside down",
            _upside_down,
            "`scored` marks the borders; it is True where a prediction stays inside its sequence",
        ),
    ),
    not_tested="empty sequences, and attention kernels that take borders instead of a mask.",
)
