"""Where builds are found: judge, learner's file, solution and page of a number."""

import importlib.util
import sys
from functools import cache
from pathlib import Path

from bookkit.builds.verdict import Build
from nbkit.errors import UserError
from nbkit.runs.root import ROOT

JUDGES = "exercises/checks/builds"
LEARNERS, SOLUTIONS, PAGES = "exercises/builds", "solutions/builds", "book/builds"


@cache
def all_builds() -> dict[int, Build]:
    """All builds by the number of their chapter.

    Raises:
        UserError: the book's folder is not here.

    """
    folder = ROOT / JUDGES
    if not folder.is_dir():
        raise UserError(f"the builds come with the book, and {folder} is missing: use a copy of it")
    return {build.number: build for build in map(_loaded, sorted(folder.glob("[0-9]*_*.py")))}


def get_build(number: int) -> Build:
    """The build of a chapter.

    Raises:
        UserError: the chapter has none.

    """
    builds = all_builds()
    if number not in builds:
        known = ", ".join(map(str, builds))
        raise UserError(f"chapter {number} has no build; builds belong to chapters {known}")
    return builds[number]


def file_of(build: Build, folder: str) -> Path:
    """A build's file in one of the folders above."""
    ending = ".md" if folder == PAGES else ".py"
    return ROOT / folder / f"{build.name}{ending}"


def source_of(build: Build, folder: str) -> str:
    """The text of a build's program.

    Raises:
        UserError: there is no such file.

    """
    path = file_of(build, folder)
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        raise UserError(
            f"{folder}/{path.name} is missing: `git checkout -- {folder}/{path.name}` brings the "
            "empty one back"
        ) from None


def _loaded(path: Path) -> Build:
    name = f"bookkit_build_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))  # a judge may import what stands beside it
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    build = module.BUILD
    assert isinstance(build, Build)
    if build.name != path.stem:
        raise ValueError(f"{path} holds the build {build.name}: name the file after it")
    return build
