"""`--set key=value`: values from the command line that replace those of a job file.

A key is a field of job.yaml (``gpus``, ``limits.cost``, ``slurm.partition``), or a field of the
training script's ``Config`` (``seed``, which is ``arguments.seed``), or one of a stage's own
(``ppo.steps``). A value is read as YAML reads it, so ``3`` is a number and ``[1, 2]`` a list.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from bookkit.jobs.job_yaml import JobError, Location, loader_of
from nbkit.cluster.job import Job

KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*")


def parse(words: Sequence[str]) -> dict[str, Any]:
    """Keys and values, in order.

    Raises:
        JobError: no key=value, a key given twice, or a value that is not YAML.

    """
    found: dict[str, Any] = {}
    for word in words:
        key, sign, text = word.partition("=")
        if not sign or not KEY.fullmatch(key):
            raise JobError(f"--set {word}: write key=value, as in seed=2 or limits.cost=50")
        if key in found:
            raise JobError(f"--set {word}: {key} is given twice")
        found[key] = _value(word, text)
    return found


def apply(
    content: dict[str, Any], lines: dict[Location, Any], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """The content of a job file with values replaced; messages then name the setting as a line.

    Args:
        content: of the file, after a variant has been merged into it; unchanged.
        lines: of its places; entries are added.
        settings: from ``parse``.

    Raises:
        JobError: a stage is meant that does not exist, or a part of the file that holds no values.

    """
    content = _copy(content)
    for key, value in settings.items():
        place = _place(content, key)
        part: Any = content
        for name in place[:-1]:
            part = part.setdefault(name, {}) if isinstance(part, dict) else part[name]
        if not isinstance(part, dict):
            raise JobError(f"--set {key}: {place[0]} holds no values of its own; name another key")
        part[str(place[-1])] = value
        for number in range(1, len(place) + 1):
            here = place[:number]
            if number == len(place) or here not in lines:
                lines[here] = f"--set {key}={value}"
    return content


def products(words: Sequence[str]) -> Iterator[list[str]]:
    """The members of a sweep: each value that stands between commas, with each of the others.

    Commas within brackets and quotes belong to the value.
    """
    choices = []
    for word in words:
        key, sign, text = word.partition("=")
        if not sign:
            raise JobError(f"--set {word}: write key=value,value,… as in seed=1,2,3")
        choices.append([f"{key}={value}" for value in _split(text)])
    for member in itertools.product(*choices):
        yield list(member)


def label_of(words: Sequence[str]) -> str:
    """A name for the run folder of these settings, such as "seed=2_learning_rate=1e-6"."""
    return "_".join(re.sub(r"[^A-Za-z0-9_.=+-]+", "-", word) for word in words)


def _place(content: Mapping[str, Any], key: str) -> Location:
    """Where in the file a key stands."""
    first, *rest = key.split(".")
    if first in Job.model_fields and first != "stages":
        return (first, *rest)
    if not rest:
        return ("arguments", first)
    stages = [stage.get("name") for stage in content.get("stages") or () if isinstance(stage, dict)]
    if first not in stages or len(rest) != 1:
        known = ", ".join(str(name) for name in stages) or "none"
        raise JobError(
            f"--set {key}: {first!r} is no field of job.yaml and no stage (there are: {known}); a "
            "field of Config is named alone, as in seed"
        )
    return ("stages", stages.index(first), "arguments", rest[0])


def _value(word: str, text: str) -> Any:
    try:
        loader = loader_of(text)
        try:
            return loader.get_single_data() if text else ""
        finally:
            loader.dispose()
    except (yaml.YAMLError, RecursionError) as error:
        first = str(error).splitlines()[0]
        raise JobError(f"--set {word}: the value is not YAML: {first}") from None


def _split(text: str) -> list[str]:
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if letter == "," and not depth and not quote:
            parts.append("")
            continue
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "[{") - (letter in "]}")
        parts[-1] += letter
    return parts


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
