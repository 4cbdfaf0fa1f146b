"""samples.jsonl: what a language model wrote at some steps of a run, one sample a line."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nbkit.runs.metrics_file import drop_half_line, whole_lines

FILE = "samples.jsonl"


@dataclass(frozen=True)
class Sample:
    """One completion.

    Attributes:
        prompt: what was asked.
        text: what was answered, up to the EOS.
        reward: None: there is none, or it could not be scored.
        parts: of the reward, by name.
        advantage: mean over its tokens; None: it was not trained on.

    """

    prompt: str
    text: str
    reward: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    advantage: float | None = None


def append_samples(path: Path, step: int, samples: Sequence[Sample]) -> None:
    """Append the samples of a step in one write, so that a kill can cut off the last line only."""
    lines = [json.dumps(_plain({"step": step, **asdict(sample)})) + "\n" for sample in samples]
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(lines))


def read_samples(path: Path) -> list[tuple[int, Sample]]:
    """Read steps and samples, without a last line that was cut off; [] if there is no file.

    Raises:
        ValueError: a line that is no sample.

    """
    found = []
    for number, content in whole_lines(path):
        try:
            found.append((int(content["step"]), _sample(content)))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}:{number}: not a sample with its step") from error
    return found


def cut_samples_after(path: Path, step: int) -> None:
    """Drop the samples after a step, which a resumed run writes anew, and a half line."""
    if not path.exists():
        return
    drop_half_line(path)
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    new.touch()
    for at, sample in read_samples(path):
        if at <= step:
            append_samples(new, at, [sample])
    new.replace(path)


def as_text(sample: Sample) -> str:
    """A sample in a few lines, for a log and for trackers."""
    told = [] if sample.reward is None else [f"reward {sample.reward:.3g}"]
    told += [f"{name} {value:.3g}" for name, value in sample.parts.items()]
    told += [] if sample.advantage is None else [f"advantage {sample.advantage:+.3g}"]
    return f"[{', '.join(told)}]\n  asked: {sample.prompt!r}\n  wrote: {sample.text!r}"


def _sample(content: Mapping[str, Any]) -> Sample:
    numbers = (content["reward"], content["advantage"])
    reward, advantage = (None if value is None else float(value) for value in numbers)
    parts = {name: float(value) for name, value in content["parts"].items()}
    return Sample(str(content["prompt"]), str(content["text"]), reward, parts, advantage)


def _plain(value: Any) -> Any:
    """Numbers that JSON cannot hold by their names, as in "nan"."""
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
