"""Broken twins: the solution with one mistake, which the judge must name."""

from bookkit.builds.registry import SOLUTIONS, file_of, source_of
from bookkit.builds.verdict import Build
from bookkit.exercises.exercise import Edit


def twin_source(build: Build, twin: Edit) -> str:
    """The solution's text with the edits of a twin made.

    Raises:
        ValueError: an edit's old text does not stand exactly once in the solution.

    """
    source = source_of(build, SOLUTIONS)
    for old, new in twin.pairs:
        if source.count(old) != 1:
            raise ValueError(
                f"{file_of(build, SOLUTIONS).name}, twin {twin.name!r}: {old!r} stands "
                f"{source.count(old)} times in the solution; it must stand once"
            )
        source = source.replace(old, new)
    return source
