"""Curves for others to look at: TensorBoard's event files, and Weights & Biases if asked for.

`metrics.jsonl` is what the book reads; these are copies. Which are written is a list in the
environment, set by the launcher from `trackers` in job.yaml.
"""

import json
import os
import secrets
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from nbkit.runs.json_file import read_json
from nbkit.runs.run_folder import FACTS
from nbkit.runs.samples import Sample, as_text

VARIABLE = "NBKIT_TRACKERS"
ID = "wandb_id"
KNOWN = ("tensorboard", "wandb")


class Tracker(Protocol):
    """What gets every row, and the samples."""

    def log(self, step: int, row: dict[str, float]) -> None:
        """Write one row."""

    def samples(self, step: int, samples: Sequence[Sample]) -> None:
        """Write what a language model wrote at a step."""

    def close(self) -> None:
        """Write what is still in memory."""


class TensorBoard:
    """Event files under ``tensorboard/``; rows that a resumed run repeats replace the old ones."""

    def __init__(self, folder: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        purge = step + 1 if step else None
        self._writer: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=purge)

    def log(self, step: int, row: dict[str, float]) -> None:
        """Write one row."""
        for name, value in row.items():
            self._writer.add_scalar(name, value, step)

    def samples(self, step: int, samples: Sequence[Sample]) -> None:
        """Write the samples under "Text", indented, so that Markdown leaves them as they are."""
        text = "\n\n".join(map(as_text, samples))
        self._writer.add_text("samples", "    " + text.replace("\n", "\n    "), step)

    def close(self) -> None:
        """Write what is still in memory."""
        self._writer.close()


class WeightsAndBiases:
    """One W&B run a stage's folder, continued when it resumes.

    W&B takes two runs of one id for one, so the id is drawn by lot and kept in the folder; names
    of folders, such as `default/grpo`, are those of other jobs and of other people too. The project
    is the job's name, unless the environment variable `WANDB_PROJECT` says another.
    """

    def __init__(self, folder: Path, config: dict[str, Any], stage: str) -> None:
        import wandb

        root = folder.parent if stage else folder
        job = root / FACTS
        facts = read_json(job) if job.exists() else {}
        names = (facts.get("job") or root.parent.name, root.name, stage)
        self._wandb: Any = wandb
        self._run: Any = wandb.init(
            dir=str(folder),
            project=os.environ.get("WANDB_PROJECT") or facts.get("job"),
            id=_kept_id(folder / ID),
            name="-".join(filter(None, names)),
            resume="allow",
            config=config,
        )

    def log(self, step: int, row: dict[str, float]) -> None:
        """Write one row."""
        self._run.log(row, step=step)

    def samples(self, step: int, samples: Sequence[Sample]) -> None:
        """Write the samples as a table, which joins the row of the step."""
        columns = ["prompt", "text", "reward", "parts", "advantage"]
        rows = [
            [one.prompt, one.text, one.reward, json.dumps(dict(one.parts)), one.advantage]
            for one in samples
        ]
        self._run.log({"samples": self._wandb.Table(columns=columns, data=rows)}, step=step)

    def close(self) -> None:
        """Tell the server that the run has ended."""
        self._run.finish()


def _kept_id(path: Path) -> str:
    """The id in a file, which is written on the first call."""
    if not path.exists():
        new = path.with_name(path.name + ".new")
        new.write_text(secrets.token_hex(8) + "\n")
        new.replace(path)
    return path.read_text().strip()


def open_trackers(
    folder: Path, config: dict[str, Any], step: int, *, stage: str = ""
) -> list[Tracker]:
    """Open those that the environment names.

    Args:
        folder: of the stage, or of a run that has none.
        config: shown beside the curves.
        step: that the run resumes from; 0 for a new one.
        stage: its name; "" if there are none.

    Raises:
        ValueError: a name that is not known, or W&B where it is not installed.

    """
    names = [n for n in os.environ.get(VARIABLE, "tensorboard").split(",") if n]
    unknown = sorted(set(names) - set(KNOWN))
    if unknown:
        raise ValueError(f"{VARIABLE}: {unknown[0]!r} is unknown; known are {', '.join(KNOWN)}")
    opened: list[Tracker] = []
    if "tensorboard" in names:
        if find_spec("tensorboard") is None:
            print("tensorboard is not installed here; the curves are in metrics.jsonl only")
        else:
            opened.append(TensorBoard(folder, step))
    if "wandb" in names:
        if find_spec("wandb") is None:
            raise ValueError(
                "trackers name wandb, which is not installed: run `pip install wandb`, or take it "
                "out of `trackers` in job.yaml"
            )
        opened.append(WeightsAndBiases(folder, config, stage))
    return opened
