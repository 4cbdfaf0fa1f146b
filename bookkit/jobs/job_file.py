"""Read a job.yaml; whatever is wrong with it is named with file, line and the allowed values."""

import ast
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from bookkit.jobs.job_yaml import JobError, Location, at, dotted, read_yaml
from bookkit.jobs.settings import apply, parse
from nbkit.cluster.job import Container, Job, Limits, Stage
from nbkit.cluster.slurm import Slurm

__all__ = ["JobError", "config_fields", "load_job", "read_yaml", "variant_names", "where"]

VARIANTS = "variants"
Settings = Sequence[str]
NESTED: dict[str, type[BaseModel]] = {
    "container": Container,
    "slurm": Slurm,
    "limits": Limits,
    "stages": Stage,
}


def load_job(
    path: Path, *, variant: str = "", script: Path | None = None, settings: Settings = ()
) -> Job:
    """Read a job.

    Args:
        path: of job.yaml; messages name it as given.
        variant: of those under `variants`; its values replace the others.
        settings: key=value, which replace those of both, see ``settings``.
        script: the training script; values without a field in its ``Config`` are then findings.

    Raises:
        JobError: what is wrong, one line each.

    """
    content, read = read_yaml(path)
    lines: dict[Location, int | str] = dict(read)
    variants = _variants(path, content, lines)
    content.pop(VARIANTS, None)
    if variant:
        if variant not in variants:
            known = ", ".join(variants) or "none"
            raise JobError(f"{path}: there is no variant {variant!r}; there are: {known}")
        content = _merged(content, variants[variant])
        # A value's line is the variant's where it gives one.
        own = {place[2:]: n for place, n in lines.items() if place[:2] == (VARIANTS, variant)}
        lines |= {place: number for place, number in own.items() if place}
    content = apply(content, lines, parse(settings))
    try:
        job = Job.model_validate(content)
    except ValidationError as error:
        found = [_finding(path, lines, detail) for detail in error.errors()]
        raise JobError("\n".join(sorted(dict.fromkeys(found), key=_line_number))) from None
    if script is not None:
        problems = list(_unknown_values(path, lines, job, script))
        if problems:
            raise JobError("\n".join(problems))
    return job


def variant_names(path: Path) -> list[str]:
    """List the variants of a job file.

    Raises:
        JobError: they cannot be read.

    """
    content, lines = read_yaml(path)
    return list(_variants(path, content, lines))


def where(path: Path, stage: str, field: str, *, variant: str = "", settings: Settings = ()) -> str:
    """Say where the value of a field of ``Config`` stands: file, line, and place in the file.

    Args:
        path: of job.yaml.
        stage: in which ``Config`` gets the value; "" if there are none.
        field: of ``Config``.
        variant: its values count first.
        settings: key=value, which count before those.

    """
    for word in settings:
        if word.partition("=")[0] in (field, f"arguments.{field}", f"{stage}.{field}"):
            return f"--set {word}"
    content, lines = read_yaml(path)
    own = content.get(VARIANTS, {}).get(variant, {}) if variant else {}
    over = (VARIANTS, variant) if variant else ()
    staged = over if "stages" in own else ()  # a variant's stages replace the others
    names = [entry.get("name") for entry in (own if staged else content).get("stages") or ()]
    places: list[Location] = []
    if stage in names:
        places.append((*staged, "stages", names.index(stage), "arguments", field))
    for place in (("arguments", field), (field,)):
        places += [(*over, *place), place]
    for found in places:
        if found in lines:
            return f"{at(path, lines, found)}: {dotted(found)}"
    return str(path)


def config_fields(script: Path) -> list[str]:
    """List the fields of the class ``Config`` of a training script, without importing it.

    Raises:
        JobError: there is no such class.

    """
    for node in ast.parse(script.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == "Config":
            return [
                item.target.id
                for item in node.body
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
            ]
    raise JobError(f"{script}: it defines no class Config")


def _variants(
    path: Path, content: Mapping[str, Any], lines: Mapping[Location, int | str]
) -> dict[str, dict[str, Any]]:
    """The variants of a job file: names, and mappings of the values that they replace."""
    variants = content.get(VARIANTS, {})
    if not isinstance(variants, dict) or not all(isinstance(v, dict) for v in variants.values()):
        raise JobError(f"{at(path, lines, (VARIANTS,))}: give each variant a mapping of values")
    for name in variants:
        if not isinstance(name, str):
            raise JobError(
                f"{at(path, lines, (VARIANTS, str(name)))}: variant {name!r} is no text; write "
                "its name in quotes, or as in gpus_1"
            )
    return variants


def _unknown_values(
    path: Path, lines: Mapping[Location, int | str], job: Job, script: Path
) -> Iterator[str]:
    fields = config_fields(script)
    places: dict[Location, str] = {(name,): name for name in job.values("")}
    places |= {("arguments", name): name for name in job.arguments}
    for number, stage in enumerate(job.stages):
        places |= {("stages", number, "arguments", name): name for name in stage.arguments}
    if job.stages:
        places[("stages",)] = "stage"
    for place, name in places.items():
        if name not in fields and place in lines:
            yield (
                f"{at(path, lines, place)}: {dotted(place)}: Config in {script.name} has no "
                f"field {name!r};{_close(name, fields)} it has {', '.join(fields)}"
            )


def _finding(path: Path, lines: Mapping[Location, int | str], detail: ErrorDetails) -> str:
    place = tuple(detail["loc"])
    # The last parts of a place may be pydantic's own (a member of a union, "[key]").
    while place and place not in lines and detail["type"] != "missing":
        place = place[:-1]
    where = f"{at(path, lines, place)}: " + (f"{dotted(place)}: " if place else "")
    given, message = detail["input"], detail["msg"]
    if not place:  # of several values together; the message begins with the place of one
        named = message.removeprefix("Value error, ").partition(":")[0].split(".")
        own = tuple(int(part) if part.isdigit() else part for part in named)
        where = f"{at(path, lines, own)}: "
    match detail["type"]:
        case "literal_error":
            allowed = detail["ctx"]["expected"].replace(" or ", ", ")
            return f"{where}{given!r} is not allowed; the allowed values are {allowed}"
        case "extra_forbidden":
            known = _known(place)
            name = str(place[-1])
            return f"{where}there is no such field;{_close(name, known)} there are " + ", ".join(
                known
            )
        case "missing":
            return f"{at(path, lines, place[:-1])}: {dotted(place)}: it is missing; give it"
        case "string_pattern_mismatch":
            pattern = detail["ctx"]["pattern"]
            return f"{where}{given!r} is not allowed; allowed is what matches {pattern}"
        case "value_error":
            return f"{where}{message.removeprefix('Value error, ')}"
        case "tuple_type" | "list_type":
            return f"{where}{given!r}: give a list, as in [a, b]"
        case "dict_type" | "model_type" | "model_attributes_type":
            return f"{where}{given!r}: give a mapping of names to values"
        case _:
            return f"{where}{given!r}: {message[0].lower()}{message[1:]}"


def _line_number(finding: str) -> int:
    found = re.search(r":(\d+): ", finding)
    return int(found.group(1)) if found else 0


def _known(place: Location) -> list[str]:
    model: type[BaseModel] | None = NESTED.get(str(place[0])) if len(place) > 1 else Job
    return list(model.model_fields) if model is not None else []


def _close(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f" did you mean {close[0]!r}?" if close else ""


def _merged(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Replace values, mapping by mapping."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        result[key] = _merged(old, value) if both and isinstance(old, dict) else value
    return result
