"""YAML with the line of each key: what a message about a value needs."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

Location = tuple[str | int, ...]
DEPTH = 20
TOO_DEEP = "values are nested too deeply, or one holds itself; write them flatter"


class JobError(ValueError):
    """A job file that cannot be used; one line a finding."""


class _Loader(yaml.SafeLoader):
    """YAML without the surprise that 12:00:00 is the number 43200."""


_Loader.yaml_implicit_resolvers = {
    letter: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
    ]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9][0-9_]*)$"), list("-+0123456789")
)
# 1e-6 is a number here, as it is for whoever writes it.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+"
        r"|\.[0-9]+(?:[eE][-+]?[0-9]+)?|\.inf|\.nan)$"
    ),
    list("-+.0123456789"),
)


def read_yaml(path: Path) -> tuple[dict[str, Any], dict[Location, int]]:
    """Read a mapping, and the line on which each key and item stands.

    Raises:
        JobError: no file, no UTF-8, no YAML, no mapping, a key that is given twice, or values that
            are nested without an end.

    """
    if not path.is_file():
        raise JobError(f"{path}: there is no such file")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise JobError(f"{path}:{line}: not text in UTF-8; save the file as UTF-8") from None
    try:
        return _parsed(path, text)
    except RecursionError:
        raise JobError(f"{path}: {TOO_DEEP}") from None


def _parsed(path: Path, text: str) -> tuple[dict[str, Any], dict[Location, int]]:
    try:
        loader = _Loader(text)
    except yaml.YAMLError as error:  # a character that YAML does not know
        raise JobError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    try:
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise JobError(f"{path}:1: a job file is a mapping of names to values")
        lines: dict[Location, int] = dict(_lines(path, node, ()))
        return loader.construct_document(node), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise JobError(f"{path}{line}: not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise JobError(f"{path}: not YAML: {error}") from None
    finally:
        loader.dispose()


def loader_of(text: str) -> yaml.SafeLoader:
    """A loader of YAML as a job file has it; the caller disposes of it.

    Raises:
        yaml.YAMLError: a character that YAML does not know.

    """
    return _Loader(text)


def at(path: Path, lines: Mapping[Location, int | str], place: Location) -> str:
    """File and line of a place, or of the nearest one around it; of a setting the setting."""
    while place and place not in lines:
        place = place[:-1]
    line = lines.get(place, 1)
    return line if isinstance(line, str) else f"{path}:{line}"


def dotted(place: Location) -> str:
    """A place as it is written: stages.0.name."""
    return ".".join(str(part) for part in place)


def _lines(path: Path, node: yaml.Node, place: Location) -> Iterator[tuple[Location, int]]:
    yield place, node.start_mark.line + 1
    if len(place) > DEPTH:
        raise JobError(f"{path}:{node.start_mark.line + 1}: {dotted(place[:2])}: {TOO_DEEP}")
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                raise JobError(f"{path}:{key.start_mark.line + 1}: {name} is given twice")
            seen.add(name)
            yield from _lines(path, value, (*place, name))
            yield (*place, name), key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield from _lines(path, value, (*place, number))
