"""What code a page, a study or a test reaches: found in the sources, without running them.

`reach_of` names every function, class and constant that some code can come to, with a digest of
each that ignores docstrings, comments and format. `ran` compares it with what was executed.

Not found are modules and names that are computed as text (`import_module("nbkit." + name)`,
`sys.modules[name]`, `Base.__subclasses__()`), and what a library calls because it was handed
something. A page that ran such code under measurement is refused by `ran.missed`; of a test, the
modules that its processes load are observed (`hooks/inputs.py`). A docstring that a page shows
through a name that another cell made is not found either. Annotations of functions count as text:
what their names stand for is not followed. A line number in an output is not code.
"""

from bookkit.authoring.reach.closure import Finder, reach_of
from bookkit.authoring.reach.reached import Reach

__all__ = ["Finder", "Reach", "reach_of"]
