"""nbkit: what the chapters of the book build, in tidy form.

Importing the package is cheap: the names below load their modules when they are first used, so
that tools which only read the book (rendering, linting) never import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bookkit.authoring.record import record as record
    from bookkit.authoring.result_line import measured as measured
    from bookkit.authoring.show import show as show
    from bookkit.exercises.check import CheckFailed as CheckFailed
    from bookkit.exercises.check import check as check
    from bookkit.exercises.desk import desk as desk
    from bookkit.exercises.predictions import predict as predict
    from bookkit.exercises.predictions import reveal as reveal
    from bookkit.exercises.shown_solution import solution as solution

__version__ = "0.1.0"
_LAZY = {
    "check": ("bookkit.exercises.check", "check"),
    "CheckFailed": ("bookkit.exercises.check", "CheckFailed"),
    "desk": ("bookkit.exercises.desk", "desk"),
    "measured": ("bookkit.authoring.result_line", "measured"),
    "predict": ("bookkit.exercises.predictions", "predict"),
    "record": ("bookkit.authoring.record", "record"),
    "reveal": ("bookkit.exercises.predictions", "reveal"),
    "show": ("bookkit.authoring.show", "show"),
    "solution": ("bookkit.exercises.shown_solution", "solution"),
}
__all__ = [
    "CheckFailed",
    "__version__",
    "check",
    "desk",
    "measured",
    "predict",
    "record",
    "reveal",
    "show",
    "solution",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        module, attribute = _LAZY[name]
        return getattr(import_module(module), attribute)
    raise AttributeError(f"module 'nbkit' has no attribute {name!r}")
