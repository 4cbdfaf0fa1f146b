"""Curves that a study of ours has recorded, to be drawn beside the learner's."""

from dataclasses import dataclass
from typing import Any

from bookkit.builds.verdict import Curve
from nbkit.runs.results import read_result


@dataclass(frozen=True)
class Recorded:
    """The runs of one arm of a stored result; the first seed of each is drawn.

    Attributes:
        label: whose they are.
        file: from the root of the book.
        path: the keys that lead to the list of runs.
        inside: the key of the curve in a run; "": the run itself holds its columns.
        x: the column of the horizontal axis.
        y: the column of the score.
        every: without a column for the horizontal axis, how far a point is from the next.
        scale: what one of that column is on the axis of the build.

    """

    label: str
    file: str
    path: tuple[str, ...]
    inside: str = ""
    x: str = "steps"
    y: str = "return"
    every: int = 0
    scale: int = 1

    def curves(self) -> list[Curve]:
        """The curve of the first seed, with the number of seeds that were run."""
        runs: Any = read_result(self.file)
        for key in self.path:
            runs = runs[key]
        run = runs[0][self.inside] if self.inside else runs[0]
        if isinstance(run, list):  # a row a point, not a column a figure
            run = {name: [row[name] for row in run] for name in run[0]}
        scores = [float(score) for score in run[self.y]]
        if self.every:
            places = [self.every * (i + 1) for i in range(len(scores))]
        else:
            places = [self.scale * place for place in run[self.x]]
        points = tuple(zip(map(float, places), scores, strict=True))
        return [Curve(f"{self.label}, one of {len(runs)} seeds", points)]
