"""Whether an expression is a number that was worked out, or one that was left to the reader."""

import re
from typing import Any

import sympy


def unfinished(latex: str, expression: Any) -> bool:
    """Whether an expression adds or multiplies numbers that could be worked out.

    A fraction of two whole numbers, a power, a root, a logarithm, a factorial are ways to write
    one number; ``2+3``, ``5\\cdot 50`` and ``x+2-x+3`` are not.

    Args:
        latex: as it was written.
        expression: the same, as SymPy read it.

    """
    plain = re.sub(r"\\[A-Za-z]+\s*(?:[_^]\s*(?:\{[^{}]*\}|\w))*", "f", latex)
    if re.search(r"[\d)\]}]\s*\(|\d\s*\)\s*\d", plain):
        return True  # a number beside a bracket, which the parser may add up
    for part in sympy.preorder_traversal(expression):
        if isinstance(part, sympy.Add) and sum(map(_has_number, _terms(part))) > 1:
            return True
        if isinstance(part, sympy.Mul):
            factors = [f for f in _factors(part) if f != -1 and f.is_number and _has_number(f)]
            if len(factors) > 1 and not _is_fraction(factors):
                return True
    return False


def _terms(expression: Any) -> list[Any]:
    """The terms of a sum, of sums inside it too."""
    if not isinstance(expression, sympy.Add):
        return [expression]
    return [term for part in expression.args for term in _terms(part)]


def _factors(expression: Any) -> list[Any]:
    """The factors of a product, of products inside it too."""
    if not isinstance(expression, sympy.Mul):
        return [expression]
    return [factor for part in expression.args for factor in _factors(part)]


def _has_number(term: Any) -> bool:
    """Whether a term has a number as a factor, or in one without symbols; a sign is none."""
    return any(
        factor != -1 and not factor.free_symbols and factor.atoms(sympy.Rational)
        for factor in _factors(term)
    )


def _is_fraction(factors: list[Any]) -> bool:
    """One whole number over another."""
    over = [f for f in factors if isinstance(f, sympy.Pow) and f.exp == -1 and f.base.is_Integer]
    return len(factors) == 2 and len(over) == 1 and any(f.is_Integer for f in factors)
