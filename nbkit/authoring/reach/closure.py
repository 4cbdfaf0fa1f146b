"""From some code to everything of the checkout that it can come to."""

from collections.abc import Iterable
from pathlib import Path

from nbkit.authoring.reach.modules import Module
from nbkit.authoring.reach.sources import Sources, parsed
from nbkit.authoring.reach.walk import Reach, Walk


class Finder(Sources):
    """Follows names through the modules of one checkout."""

    def reach(
        self,
        *,
        sources: Iterable[str] = (),
        scripts: Iterable[Path] = (),
        modules: Iterable[str] = (),
    ) -> Reach:
        """Follow code to its end.

        Args:
            sources: Python sources that run together, as the cells of a page do; lines of IPython
                magic are ignored, and a source that is not Python reaches nothing.
            scripts: files that are run as programs.
            modules: dotted names of modules that are reached whole.
        """
        self.look_again()
        walk = Walk(self)
        page = Module("", self.root / "page", "")
        for source in sources:
            tree = parsed(source)
            if tree is not None:
                page.add(tree)
        walk.run_whole(page)
        for script in scripts:
            walk.run_whole(self.script(script))
        for name in modules:
            walk.whole(name)
        walk.finish()
        return walk.reach


def reach_of(
    root: Path, *, scripts: Iterable[Path] = (), sources: Iterable[str] = ()
) -> dict[str, str]:
    """The digests of everything that scripts or sources reach, by dotted name."""
    return Finder(root).reach(scripts=scripts, sources=sources).symbols
