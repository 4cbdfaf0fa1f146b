"""Sets of real numbers in two notations: ``x < -1 or x > 1`` and a union of intervals."""

from collections.abc import Callable
from typing import Any

import sympy

from nbkit.rewards.notation import Leaf, Relation, Sequence, Text, Tree, Unordered
from nbkit.text.numerals import Quantity

REALS = "the numbers R"
_KINDS = ("()", "[]", "(]", "[)")
_Value = Callable[[Tree], Any]


def same_set(a: Tree, b: Tree, value: _Value) -> bool:
    """Return whether two answers are one set of real numbers, at least one by a union or by <.

    A pair in brackets alone is not looked at: (1, 2) may be a point.

    Args:
        a: an answer, read.
        b: another.
        value: what a leaf is worth to SymPy.

    """
    if not _speaks_of_sets(a) and not _speaks_of_sets(b):
        return False
    if isinstance(a, Relation) and isinstance(b, Relation):
        return False  # compared with their names by ``equality``
    try:
        one, other = _as_set(a, value, []), _as_set(b, value, [])
    except (ValueError, TypeError, NotImplementedError):
        return False
    return one is not None and other is not None and bool(one == other)


def _speaks_of_sets(tree: Tree) -> bool:
    if isinstance(tree, Unordered):
        return tree.kind == "union" or any(map(_speaks_of_sets, tree.parts))
    if isinstance(tree, Sequence):
        return tree.kind in ("(]", "[)", "without")
    if isinstance(tree, Text):
        return tree.words == REALS
    return isinstance(tree, Relation) and tree.sign != "="


def _as_set(tree: Tree, value: _Value, names: list[Tree]) -> Any:
    """The set of real numbers that an answer describes, or None; ``names`` collects its unknown."""
    if isinstance(tree, Sequence) and tree.kind in _KINDS and len(tree.parts) == 2:
        low, high = (_number(part, value) for part in tree.parts)
        if low is None or high is None:
            return None
        return sympy.Interval(low, high, tree.kind[0] == "(", tree.kind[1] == ")")
    if isinstance(tree, Text):
        return sympy.Reals if tree.words == REALS else None
    if isinstance(tree, Sequence) and tree.kind == "without":
        whole, part = (_as_set(part, value, names) for part in tree.parts)
        return None if whole is None or part is None else sympy.Complement(whole, part)
    if isinstance(tree, Relation):
        return _of_relation(tree, value, names)
    return _of_list(tree, value, names) if isinstance(tree, Unordered) else None


def _of_list(tree: Unordered, value: _Value, names: list[Tree]) -> Any:
    if all(isinstance(part, Leaf | Quantity) for part in tree.parts):
        numbers = [_number(part, value) for part in tree.parts]
        return None if None in numbers else sympy.FiniteSet(*numbers)
    pairs = [part for part in tree.parts if isinstance(part, Sequence)]
    if tree.kind == "set" and pairs and not any(_is_interval(pair, value) for pair in pairs):
        return None  # (1,2), (3,4) are two points
    parts = [_as_set(part, value, names) for part in tree.parts]
    if any(part is None for part in parts):
        return None
    # -1 < x, x < 1 holds between; x < -1, x > 1 cannot both hold, and means one of them.
    common = sympy.Intersection(*parts)
    if tree.kind == "chain" or (tree.kind == "set" and not pairs and common != sympy.EmptySet):
        return common
    return sympy.Union(*parts)


def _is_interval(pair: Sequence, value: _Value) -> bool:
    ends = [_number(part, value) for part in pair.parts]
    return pair.kind in ("(]", "[)") or any(end in (sympy.oo, -sympy.oo) for end in ends)


def _of_relation(tree: Relation, value: _Value, names: list[Tree]) -> Any:
    left, right = _number(tree.left, value), _number(tree.right, value)
    if (left is None) == (right is None):
        return None
    name = tree.left if left is None else tree.right
    if not isinstance(name, Leaf) or not value(name).is_Symbol or (names and names[0] != name):
        return None
    names.append(name)
    if tree.sign in ("=", "!="):
        point = sympy.FiniteSet(left if right is None else right)
        return point if tree.sign == "=" else sympy.Complement(sympy.Reals, point)
    strict = tree.sign == "<"
    if left is None:
        return sympy.Interval(-sympy.oo, right, True, strict)
    return sympy.Interval(left, sympy.oo, strict, True)


def _number(tree: Tree, value: _Value) -> Any:
    if not isinstance(tree, Leaf | Quantity):
        return None
    number = value(tree)
    return number if number.is_number and number.is_extended_real else None
