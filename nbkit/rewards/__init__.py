"""Reward functions and verifiers, and the sandbox in which they run programs.

Importing the package is cheap: the names below load their modules when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbkit.rewards.answers import extract_answer as extract_answer
    from nbkit.rewards.answers import math_score as math_score
    from nbkit.rewards.code import code_score as code_score
    from nbkit.rewards.sandbox import CodeResult as CodeResult
    from nbkit.rewards.sandbox import run_code as run_code

_LAZY = {
    "extract_answer": "nbkit.rewards.answers",
    "math_score": "nbkit.rewards.answers",
    "code_score": "nbkit.rewards.code",
    "CodeResult": "nbkit.rewards.sandbox",
    "run_code": "nbkit.rewards.sandbox",
}
__all__ = ["CodeResult", "code_score", "extract_answer", "math_score", "run_code"]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'nbkit.rewards' has no attribute {name!r}")
