"""robot.shift.1: the random shift of pictures, with the offsets given."""

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def shift(pictures: Tensor, offsets: Tensor, pad: int) -> Tensor:
    """Pad by repeating the edge, then cut out at the offset."""
    height, width = pictures.shape[1:]
    rows = (torch.arange(height) + offsets[:, :1] - pad).clamp(0, height - 1)
    columns = (torch.arange(width) + offsets[:, 1:] - pad).clamp(0, width - 1)
    which = torch.arange(pictures.shape[0])[:, None, None]
    return pictures[which, rows[:, :, None], columns[:, None, :]]


def oracle(
    pictures: list[list[list[float]]], offsets: list[list[int]], pad: int
) -> list[list[list[float]]]:
    """Pixel by pixel."""
    moved = []
    for picture, (down, right) in zip(pictures, offsets, strict=True):
        height, width = len(picture), len(picture[0])
        rows = []
        for i in range(height):
            row = min(max(i + down - pad, 0), height - 1)
            line = []
            for j in range(width):
                column = min(max(j + right - pad, 0), width - 1)
                line.append(picture[row][column])
            rows.append(line)
        moved.append(rows)
    return moved


def cases(draw: Draw) -> Case:
    """A few small pictures."""
    n, height, width = draw.dimension(), draw.dimension(2), draw.dimension(2)
    pad = draw.integer(0, 2)
    inputs = {
        "pictures": draw.normal(n, height, width),
        "offsets": draw.integers(0, 2 * pad, n, 2),
        "pad": pad,
    }
    return Case(f"{n} of {height} × {width}", inputs)


def edges() -> tuple[Case, ...]:
    """No shift, each direction alone, both, far, a picture that is not square, several."""
    square = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]
    wide = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]

    def case(
        name: str, pictures: list[list[list[float]]], offsets: list[list[int]], pad: int
    ) -> Case:
        inputs = {
            "pictures": torch.tensor(pictures, dtype=torch.float64),
            "offsets": torch.tensor(offsets),
            "pad": pad,
        }
        return Case(name, inputs)

    return (
        case("no shift", [square], [[1, 1]], 1),
        case("rows only", [square], [[2, 1]], 1),
        case("columns only", [square], [[1, 0]], 1),
        case("both", [square], [[0, 2]], 1),
        case("far", [square], [[4, 0]], 2),
        case("not square", [wide], [[0, 2]], 1),
        case("three pictures", [square] * 3, [[0, 0], [1, 2], [2, 1]], 1),
    )


def _zeros(pictures: Tensor, offsets: Tensor, pad: int) -> Tensor:
    _, height, width = pictures.shape
    padded = torch.nn.functional.pad(pictures, (pad, pad, pad, pad))
    cut = [
        padded[i, int(a) : int(a) + height, int(b) : int(b) + width]
        for i, (a, b) in enumerate(offsets)
    ]
    return torch.stack(cut)


def _reflected(pictures: Tensor, offsets: Tensor, pad: int) -> Tensor:
    _, height, width = pictures.shape

    def mirror(places: Tensor, size: int) -> Tensor:
        period = max(1, 2 * (size - 1))
        folded = places % period
        return torch.where(folded < size, folded, period - folded)

    rows = mirror(torch.arange(height) + offsets[:, :1] - pad, height)
    columns = mirror(torch.arange(width) + offsets[:, 1:] - pad, width)
    which = torch.arange(pictures.shape[0])[:, None, None]
    return pictures[which, rows[:, :, None], columns[:, None, :]]


def _rolled(pictures: Tensor, offsets: Tensor, pad: int) -> Tensor:
    moved = [
        picture.roll((pad - int(a), pad - int(b)), (0, 1))
        for picture, (a, b) in zip(pictures, offsets, strict=True)
    ]
    return torch.stack(moved)


def _swapped(pictures: Tensor, offsets: Tensor, pad: int) -> Tensor:
    return shift(pictures, offsets.flip(1), pad)


def _other_way(pictures: Tensor, offsets: Tensor, pad: int) -> Tensor:
    return shift(pictures, 2 * pad - offsets, pad)


def _same_for_all(pictures: Tensor, offsets: Tensor, pad: int) -> Tensor:
    return shift(pictures, offsets[:1].expand_as(offsets), pad)


def _not_centred(pictures: Tensor, offsets: Tensor, pad: int) -> Tensor:
    return shift(pictures, offsets + pad, pad)


SHIFT = Exercise(
    id="robot.shift.1",
    title="Shifted pictures",
    chapter=41,
    difficulty=3,
    minutes=20,
    goal=(
        "Each picture padded on all sides by repeating its edge, then cut out again at its own "
        "offset: a shift by up to `pad` pixels in each direction."
    ),
    outputs=(Output("moved", "(B, H, W)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=shift,
    mutants=(
        Mutant(
            "padded with zeros",
            _zeros,
            "black comes in from outside: repeat the edge, or the network learns to see the frame "
            "of the shift",
        ),
        Mutant(
            "reflected",
            _reflected,
            "the picture is mirrored at its edge (`reflect`): repeat the edge itself "
            "(`replicate`), or an arm that touches it is seen twice",
        ),
        Mutant(
            "rolled",
            _rolled,
            "what leaves on one side comes in on the other: pad and cut, do not roll",
        ),
        Mutant(
            "rows and columns swapped",
            _swapped,
            "the first offset moves columns; it belongs to the rows",
        ),
        Mutant(
            "the other way",
            _other_way,
            "the shift goes the other way: cutting at a larger row moves the picture up",
        ),
        Mutant(
            "one offset for all",
            _same_for_all,
            "all pictures move by the first one's offset: each has its own",
        ),
        Mutant(
            "not centred",
            _not_centred,
            "an offset of `pad` must leave the picture where it is: subtract `pad`",
        ),
    ),
    not_tested="speed: on a GPU a loop over the pictures would cost more than the network.",
)
