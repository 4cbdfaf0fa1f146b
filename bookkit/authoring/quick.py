"""`jupytext` and `nbformat`, loaded four seconds sooner than by themselves.

They import jsonschema, which imports an optional checker of web addresses, which compiles a large
grammar. Notebooks have no field that it checks, and jsonschema itself allows for its absence.
"""

import sys

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

import jupytext  # noqa: E402
import nbformat  # noqa: E402

__all__ = ["jupytext", "nbformat"]
