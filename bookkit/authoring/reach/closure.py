"""From some code to everything of the checkout that it can come to."""

import ast
from collections.abc import Iterable
from pathlib import Path

from bookkit.authoring.reach.modules import Module
from bookkit.authoring.reach.reached import Reach
from bookkit.authoring.reach.sources import Sources, parsed
from bookkit.authoring.reach.walk import Walk


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
            sources: Python sources that run together, as the cells of a page do; in a source that
                is not Python, only the modules count that it names.
            scripts: files that are run as programs.
            modules: dotted names of modules that are reached whole.
        """
        self.look_again()
        walk = Walk(self)
        page = Module("", self.root / "page", "")
        for source in sources:
            # A cell of another language may still name a module that it runs.
            tree = parsed(source) or ast.parse(f"str({source!r})")
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
