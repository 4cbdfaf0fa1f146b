"""robot.shift.1: the random shift of pictures, with the offsets given."""

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


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


CHECK = Check(
    id="robot.shift.1",
    outputs=(Output("moved", "(B, H, W)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "padded with zeros",
            "return pictures[which, rows[:, :, None], columns[:, None, :]]",
            "padded = torch.nn.functional.pad(pictures, (pad, pad, pad, pad))\n"
            "    rows = torch.arange(height) + offsets[:, :1]\n"
            "    columns = torch.arange(width) + offsets[:, 1:]\n"
            "    return padded[which, rows[:, :, None], columns[:, None, :]]",
            "black comes in from outside: repeat the edge, or the network learns to see "
            "the frame of the shift",
        ),
        edits(
            "reflected",
            (
                ".clamp(0, height - 1)",
                ".abs() % max(1, 2 * height - 2)\n"
                "    rows = torch.minimum(rows, 2 * height - 2 - rows).abs()",
            ),
            (
                ".clamp(0, width - 1)",
                ".abs() % max(1, 2 * width - 2)\n"
                "    columns = torch.minimum(columns, 2 * width - 2 - columns).abs()",
            ),
            message="the picture is mirrored at its edge (`reflect`): repeat the edge itself "
            "(`replicate`), or an arm that touches it is seen twice",
        ),
        edits(
            "rolled",
            (".clamp(0, height - 1)", " % height"),
            (".clamp(0, width - 1)", " % width"),
            message="what leaves on one side comes in on the other: pad and cut, do not roll",
        ),
        edit(
            "rows and columns swapped",
            "height,",
            "offsets = offsets.flip(1)\n    height,",
            "the first offset moves columns; it belongs to the rows",
        ),
        edit(
            "the other way",
            "height,",
            "offsets = 2 * pad - offsets\n    height,",
            "the shift goes the other way: cutting at a larger row moves the picture up",
        ),
        edit(
            "one offset for all",
            "height,",
            "offsets = offsets[:1].expand_as(offsets)\n    height,",
            "all pictures move by the first one's offset: each has its own",
        ),
        edit(
            "not centred",
            "height,",
            "offsets = offsets + pad\n    height,",
            "an offset of `pad` must leave the picture where it is: subtract `pad`",
        ),
    ),
    not_tested="speed: on a GPU a loop over the pictures would cost more than the network.",
    wide=("pictures",),
)
