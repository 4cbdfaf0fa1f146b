"""The frame of every study: its command and its head.

A study names what is its own, `STUDY = Frame(__file__, measure, head, TOLERANCES)`, and is run by
`nbkit study NAME`, or by `python -m studies.NAME` from the root of the repository. Most are of arms
and seeds: `measure` is then that of ``studies._arms.Arms``.
"""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from bookkit.authoring.heads import compare_head, read_head, tolerance_of
from nbkit.runs.root import ROOT


@dataclass(frozen=True)
class Frame:
    """What makes a script a study.

    Attributes:
        file: the script.
        measure: runs the study; is given where the result goes and the options that it declares.
        head: computes the figures of the study's first seconds, which CI repeats.
        tolerances: by figure or metric, see ``bookkit.authoring.heads``.

    """

    file: str
    measure: Callable[..., None]
    head: Callable[[], dict[str, float]]
    tolerances: Mapping[str, float]

    @property
    def name(self) -> str:
        """The study's name: its script's."""
        return Path(self.file).stem

    def main(self) -> None:
        """Run the study, or with ``--check`` its head alone, by the words of the command line."""
        typer.run(self.command())

    def command(self) -> Callable[..., None]:
        """The function that typer makes the command line from."""
        out = ROOT / "studies" / "results" / f"{self.name}.json"
        own = list(inspect.signature(self.measure, eval_str=True).parameters.values())
        shared = {
            "check": Annotated[
                bool, typer.Option("--check", help="Repeat the head and compare; write nothing.")
            ],
            "figures": Annotated[Path | None, typer.Option(help="Write only the head, to here.")],
        }
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [
            own[0].replace(kind=keyword, default=out),
            inspect.Parameter("check", keyword, default=False, annotation=shared["check"]),
            inspect.Parameter("figures", keyword, default=None, annotation=shared["figures"]),
            *(parameter.replace(kind=keyword) for parameter in own[1:]),
        ]

        def run(check: bool, figures: Path | None, **options: Any) -> None:
            torch.set_num_threads(1)
            if check:
                self.check()
            elif figures:
                figures.write_text(json.dumps(self.described()))
            else:
                self.measure(**options)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        run.__doc__ = inspect.getdoc(self.measure)
        return run

    def check(self) -> None:
        """Repeat the head and compare it with the stored one.

        Raises:
            StudyMismatch: some figure has moved.

        """
        compare_head(read_head(ROOT, self.name)["head"], self.head(), self.tolerances)

    def described(self) -> dict[str, dict[str, float]]:
        """The head computed now, and the tolerance of each of its figures."""
        head = {name: float(value) for name, value in self.head().items()}
        return {
            "head": head,
            "tolerances": {name: tolerance_of(name, self.tolerances) for name in head},
        }


def figures(
    history: Sequence[Mapping[str, float]], names: Sequence[str], arm: str = ""
) -> dict[str, float]:
    """Some metrics of each update, as figures of a head: "arm: metric 2"."""
    before = f"{arm}: " if arm else ""
    return {
        f"{before}{name} {number}": float(step[name])
        for number, step in enumerate(history, start=1)
        for name in names
    }


def first_updates(
    trainer: Any, updates: int, names: Sequence[str], arm: str = ""
) -> dict[str, float]:
    """Figures of a head: metrics of a trainer's first updates."""
    return figures([trainer.step() for _ in range(updates)], names, arm)
