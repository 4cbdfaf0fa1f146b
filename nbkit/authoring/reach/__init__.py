"""What code a page, a study or a test reaches: found in the sources, without running them.

`reach_of` names every function, class and constant that some code can come to, with a digest of
each that ignores docstrings, comments and format. `ran` compares it with what was executed.
"""

from nbkit.authoring.reach.closure import Finder, reach_of
from nbkit.authoring.reach.walk import Reach

__all__ = ["Finder", "Reach", "reach_of"]
