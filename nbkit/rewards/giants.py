"""Powers and factorials that would fill the memory if they were evaluated."""

from typing import Any

import sympy

MAX_POWER = 10_000
MAX_ARGUMENT = 2_000  # of factorials and the like: 5,700 digits


def without_giants(expression: Any) -> Any:
    """Return an expression in which every giant is a symbol of its own.

    ``1/1503!`` and ``10^{10^{10}}`` are answers, and the same giant is the same on both sides.
    Nothing more is known of it: 1503!/1502! is not found to be 1503 where it is one.
    """
    if not expression.args:
        return expression
    if _is_giant(expression):
        return sympy.Symbol(f"giant {sympy.srepr(expression)}")
    parts = [without_giants(part) for part in expression.args]
    changed = any(new is not old for new, old in zip(parts, expression.args, strict=True))
    return expression.func(*parts) if changed else expression


def _is_giant(part: Any) -> bool:
    if isinstance(part, sympy.Pow):
        exponent = part.exp
        if exponent.is_number and (exponent.has(sympy.Pow) or exponent.has(sympy.factorial)):
            return any(_large(p) for p in exponent.args) or _large(exponent)
        return bool(exponent.is_Integer and abs(int(exponent)) > MAX_POWER)
    return isinstance(part, sympy.factorial | sympy.binomial | sympy.gamma) and any(
        _large(p, MAX_ARGUMENT) for p in part.args
    )


def _large(number: Any, limit: int = 100) -> bool:
    if not number.is_number:
        return False
    if number.is_Rational:
        return bool(abs(number) > limit)
    # A tower: anything but a small rational to a small power counts as large.
    return any(_large(part, 10) for part in number.args)
